//! `BGSAVE`: backups of a store that is served.

use std::fs;

use esker::{Db, Options};
use tempfile::tempdir;

use crate::host::{Host, Store, wait_until};

#[test]
fn backups_are_made_while_clients_write() {
    let (dir, copies) = (tempdir().unwrap(), tempdir().unwrap());
    let backups = copies.path().join("backups");
    let store = Store::at(&dir);
    let host = Host::of(&store, |config| {
        config.backup_dir = Some(backups.clone());
        config.backups_kept = 2;
    });
    let mut client = host.client();
    client.check("LASTSAVE => :0\n BGSAVE now => -ERR syntax error");
    client.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 1 << 20]]);
    for round in 1..=3 {
        client.check(&format!("SET round {round} => +OK\n BGSAVE => +Background saving started"));
        let mut written = 0;
        // It goes on beside them.
        wait_until("the backup is made", || {
            written += 1;
            client.check(&format!("SET later{written} x => +OK"));
            client.figure("rdb_bgsave_in_progress") == 0
        });
        assert!(client.call("INFO persistence").to_string().contains("rdb_last_bgsave_status:ok"));
    }
    assert!(client.call("LASTSAVE").integer() > 1_600_000_000);
    let kept = esker::backups(&backups, &Options::default()).unwrap();
    assert_eq!(kept.len(), 2);
    let restored = copies.path().join("restored");
    esker::restore(&backups, None, &restored, &Options::default()).unwrap();
    let db = Db::open(&restored, Options::default()).unwrap();
    assert_eq!(db.get_vec("round").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(db.get_vec("huge").unwrap().map(|value| value.len()), Some(1 << 20));
    // The next server knows of them.
    let last = client.call("LASTSAVE").integer();
    drop((client, host));
    let host = Host::of(&store, |config| config.backup_dir = Some(backups.clone()));
    let known = host.client().call("LASTSAVE").integer();
    assert!(known > 1_600_000_000 && known.abs_diff(last) <= 60, "{known} instead of {last}");
}

#[test]
fn backups_that_cannot_be_made() {
    let dir = tempdir().unwrap();
    let store = Store::at(&dir);
    Host::of(&store, |_| {}).client().check("BGSAVE => -ERR there is no directory for backups (backup-dir)");
    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    let host = Host::of(&store, |config| config.backup_dir = Some(file.clone()));
    let mut client = host.client();
    client.check("BGSAVE => +Background saving started");
    wait_until("it has failed", || client.call("INFO persistence").to_string().contains("status:err"));
    client.check("LASTSAVE => :0\n SET a 1 => +OK");
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
}
