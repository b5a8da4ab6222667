//! ACL files: read at the start and by `ACL LOAD`, written by `ACL SAVE`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use esker_server::ServeError;
use tempfile::TempDir;

use crate::host::{Host, Store};

/// A directory with an ACL file.
fn file(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users.acl");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn serving(path: &Path) -> Host {
    Host::of(&Store::in_memory(), |config| config.security.acl_file = Some(path.to_path_buf()))
}

fn refusal(path: &Path) -> String {
    let refused = Store::in_memory()
        .refusal_of("127.0.0.1:0", |config| config.security.acl_file = Some(path.to_path_buf()));
    match refused {
        ServeError::Security(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn users_come_from_a_file_and_go_to_it() {
    // As Redis writes it. The hash is that of "abc".
    let (dir, path) = file(
        "# users\nuser default off nopass sanitize-payload resetchannels -@all\n\
         user ann on #ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad ~a:* resetchannels &news -@all +@read +acl\n\
         user admin on >secret ~* &* +@all\n",
    );
    let host = serving(&path);
    let mut client = host.client();
    client.check("GET a => -NOAUTH Authentication required.\n AUTH ann abc => +OK\n GET a:1 => $-1");
    client.check("AUTH admin secret => +OK\n ACL SETUSER new on >pw +get db=1 => +OK\n ACL SAVE => +OK");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 4);
    assert!(!text.contains("secret") && !text.contains("ba7816bf"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let listed = client.call("ACL LIST").to_string();
    host.end();
    let host = serving(&path);
    let mut client = host.client();
    client.check("AUTH ann abc => +OK\n AUTH new pw => +OK\n AUTH admin secret => +OK");
    assert_eq!(client.call("ACL LIST").to_string(), listed);
    assert_eq!(listed, format!("[{}]", text.trim_end().replace('\n', " ")));
}

#[test]
fn a_file_is_loaded_whole_or_not_at_all() {
    let (_dir, path) = file("user ann on nopass ~* &* +@all\nuser bob on nopass ~* &* +@all\n");
    let host = serving(&path);
    let (mut admin, mut ann, mut bob) = (host.client(), host.client(), host.client());
    ann.check("AUTH ann x => +OK\n SUBSCRIBE c => [subscribe c :1]");
    bob.check("AUTH bob x => +OK");
    let before = admin.call("ACL LIST").to_string();
    for (text, why) in [
        ("user ann on\nuser bob nope", "line 2: 'nope': Syntax error. No user was changed"),
        (
            "user bob on >secret +nope",
            "line 1: '+nope': Unknown command or category name in ACL. No user was changed",
        ),
        ("user bob allkeys ~a", "line 1: '~a': Adding a pattern after the * pattern"),
        ("user bob\0", "line 1: `user` needs a name"),
        ("\u{feff}user bob on", "line 1: a line begins with `user` and a name"),
    ] {
        fs::write(&path, text).unwrap();
        let reply = admin.call("ACL LOAD").to_string();
        assert!(reply.contains(why) && !reply.contains("secret"), "{reply}");
        assert_eq!(admin.call("ACL LIST").to_string(), before);
    }
    fs::remove_file(&path).unwrap();
    assert!(admin.call("ACL LOAD").is_error());
    bob.check("PING => +PONG");
    // Bob is no user any more, and Ann may not listen to c.
    fs::write(&path, "user ann on nopass ~* resetchannels &d +@all\n").unwrap();
    admin.check("ACL LOAD => +OK\n ACL USERS => [ann default]");
    assert!(ann.is_closed() && bob.is_closed());
    let host = Host::start();
    let mut plain = host.client();
    assert!(plain.call("ACL LOAD").to_string().starts_with("-ERR this server has no ACL file"));
    assert!(plain.call("ACL SAVE").is_error());
}

#[test]
fn hostile_files() {
    let (dir, path) = file("user ann on nopass\n");
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    serving(&link).client().check("AUTH ann x => +OK");
    let dangling = dir.path().join("dangling");
    symlink(&dangling, &dangling).unwrap();
    let huge = dir.path().join("huge");
    fs::File::create(&huge).unwrap().set_len(1 << 30).unwrap();
    let zeros = dir.path().join("zeros");
    fs::write(&zeros, vec![0; 1 << 20]).unwrap();
    let many = dir.path().join("many");
    fs::write(&many, (0..20_000).map(|number| format!("user u{number}\n")).collect::<String>()).unwrap();
    for (odd, why) in [
        (dir.path(), "it is no regular file"),
        (Path::new("/dev/zero"), "it is no regular file"),
        (&dir.path().join("absent"), "No such file"),
        (&dangling, "cannot read "),
        (&huge, "it has more than"),
        (&zeros, "line 1: a line begins with `user`"),
        (&many, "there are more than 10000 users"),
    ] {
        let message = refusal(odd);
        assert!(message.contains(why), "{message}");
    }
    // What cannot be written stays as it is.
    let host = serving(&path);
    let mut admin = host.client();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "").unwrap();
    assert!(admin.call("ACL SAVE").is_error());
    assert!(path.join("file").exists());
    fs::remove_dir_all(&path).unwrap();
    admin.check("ACL SAVE => +OK");
    assert!(fs::read_to_string(&path).unwrap().contains("user ann on nopass"));
}
