//! Loopback ports that stay reserved while a server is down.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};

/// First port. All are below the range that the kernel gives to outgoing connections (32768 and up). In that range, any
/// client could take the port of a killed server before its restart, and a reconnecting client could connect to itself.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Maximum ports to try.
const TRIES_MAX: u32 = 2_000;

/// A free port of 127.0.0.1, reserved from all other tests on this machine until it is dropped, whether used or not.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The reservation: a name that only one process can hold. The kernel frees it when the holder ends.
    _claim: UnixListener,
}

impl Port {
    /// Reserves a port without a listener.
    ///
    /// # Panics
    /// If there is none.
    pub fn free() -> Self {
        let start = RandomState::new().hash_one(FIRST);
        (0..TRIES_MAX)
            .find_map(|attempt| {
                let offset = start.wrapping_add(u64::from(attempt)) % u64::from(COUNT);
                Self::claim(FIRST + u16::try_from(offset).expect("a remainder of a u16"))
            })
            .expect("a free port")
    }

    fn claim(number: u16) -> Option<Self> {
        let name = UnixAddress::from_abstract_name(format!("qiang-testkit-port-{number}"));
        let claim = UnixListener::bind_addr(&name.expect("a short name")).ok()?;
        // A program that ignores the reservations may listen there.
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).ok()?;
        Some(Self {
            number,
            _claim: claim,
        })
    }

    /// The port number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The address on loopback.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_nobody_elses_until_it_is_dropped() {
        let ports: Vec<Port> = (0..200).map(|_| Port::free()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), ports.len());
        assert!(Port::claim(numbers[0]).is_none());
        drop(ports);
        assert!(Port::claim(numbers[0]).is_some());
    }

    #[test]
    fn a_port_that_a_stranger_listens_on_is_not_taken() {
        let number = Port::free().number();
        let _stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        assert!(Port::claim(number).is_none());
    }
}
