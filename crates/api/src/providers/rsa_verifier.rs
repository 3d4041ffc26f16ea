//! RSA public keys of payment services.

use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, SubjectPublicKeyInfoDer, pem::PemObject as _,
};

/// Length of a key of 2,048 bits in DER, without its head. The library refuses signatures by shorter keys.
const KEY_BYTES_MIN: usize = 256;

/// Public key that checks signatures by RSA with SHA-256 (PKCS #1 v1.5).
pub(super) struct RsaVerifier(ParsedPublicKey);

impl RsaVerifier {
    /// Key from the text of a file: a certificate or a public key in PEM, or a public key in base64 without the lines
    /// of PEM, as consoles show it.
    ///
    /// # Errors
    /// If it is another text, or another kind of key.
    pub(super) fn from_text(text: &str) -> anyhow::Result<Self> {
        if text.contains("BEGIN CERTIFICATE") {
            return Ok(Self::from_certificate(text)?.1);
        }
        if text.contains("BEGIN ") {
            let key = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes());
            let key = key.map_err(|_| anyhow::anyhow!("it has no `PUBLIC KEY` in PEM"))?;
            return Self::from_der(&key);
        }
        let base64: String = text.split_whitespace().collect();
        let der = BASE64_STANDARD.decode(base64);
        let der =
            der.map_err(|_| anyhow::anyhow!("it is neither PEM nor a public key in base64"))?;
        Self::from_der(&der)
    }

    /// Serial number and key of a certificate in PEM.
    ///
    /// # Errors
    /// If it is no certificate of an RSA key.
    pub(super) fn from_certificate(text: &str) -> anyhow::Result<(String, Self)> {
        let certificate = CertificateDer::from_pem_slice(text.as_bytes());
        let certificate =
            certificate.map_err(|_| anyhow::anyhow!("it has no `CERTIFICATE` in PEM"))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&certificate)
            .map_err(|_| anyhow::anyhow!("its certificate is damaged"))?;
        let serial = serial_of(&hex::encode(parsed.raw_serial()));
        Ok((serial, Self::from_der(parsed.public_key().raw)?))
    }

    fn from_der(der: &[u8]) -> anyhow::Result<Self> {
        if der.len() < KEY_BYTES_MIN {
            anyhow::bail!("its key is no RSA key of 2,048 bits or more");
        }
        let key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der);
        let key = key.map_err(|_| anyhow::anyhow!("its key is no RSA key"))?;
        Ok(Self(key))
    }

    /// Whether the key signed a message. `signature` is in base64.
    pub(super) fn has_signed(&self, message: &[u8], signature: &str) -> bool {
        let signature = BASE64_STANDARD.decode(signature);
        signature.is_ok_and(|signature| self.0.verify_sig(message, &signature).is_ok())
    }
}

/// Serial number in the form that is compared: capitals, without leading zeros.
pub(super) fn serial_of(text: &str) -> String {
    text.trim_start_matches('0').to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_a_key_is_refused() {
        for text in [
            "",
            "AAAA",
            "no base64!",
            "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        ] {
            assert!(RsaVerifier::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn serials_are_compared_as_numbers() {
        assert_eq!(serial_of("00d7ce59"), "D7CE59");
        assert_eq!(serial_of("D7CE59"), "D7CE59");
    }
}
