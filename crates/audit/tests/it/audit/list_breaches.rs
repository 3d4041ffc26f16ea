//! Breaches of the indexes of lists, in a file.

/// Each breach: its name, the only check that must report it, and its changes.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = |text: &str| text.to_owned();
    vec![
        (
            "a campaign that no list of its owner finds",
            &["lists_whole"],
            sql("DELETE FROM owned; DELETE FROM funds; UPDATE listed SET campaign = @rush, posting = 0"),
        ),
        (
            "a packet's funds that no list of its sender's finds",
            &["lists_whole"],
            sql("DELETE FROM owned; DELETE FROM funds;
                 UPDATE listed SET campaign = 0, posting = (SELECT max(seq) FROM postings WHERE kind = 'fund')"),
        ),
        (
            "another's campaign in a list",
            &["lists_whole"],
            sql("INSERT OR REPLACE INTO owned SELECT 'nobody', id, ref FROM campaigns WHERE ref = @rush"),
        ),
        (
            "a posting of another kind among the funds of a sender",
            &["lists_whole"],
            sql("INSERT OR REPLACE INTO funds SELECT debit, at, seq FROM postings WHERE kind = 'deposit'"),
        ),
        (
            "lists that are written up to what is not there",
            &["lists_whole"],
            sql("DELETE FROM owned; DELETE FROM funds;
                 UPDATE listed SET campaign = 0, posting = 1 + (SELECT max(seq) FROM postings WHERE source = -1)"),
        ),
        (
            "a campaign twice in a list",
            &["lists_whole"],
            sql("DROP TABLE owned; CREATE TABLE owned (by TEXT, campaign_id TEXT, campaign INTEGER);
                 INSERT INTO owned SELECT owner, id, ref FROM campaigns, (VALUES (1), (2))"),
        ),
        (
            "a posting twice among the funds of a sender",
            &["lists_whole"],
            sql("DROP TABLE funds; CREATE TABLE funds (account INTEGER, at INTEGER, seq INTEGER);
                 INSERT INTO funds SELECT debit, at, seq FROM postings, (VALUES (1), (2)) WHERE kind = 'fund'"),
        ),
        (
            "nothing that says up to where lists are written",
            &["lists_whole"],
            sql("DELETE FROM listed"),
        ),
    ]
}
