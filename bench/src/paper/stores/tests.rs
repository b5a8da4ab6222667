//! Every store that is built in does what the experiments ask of it.

use super::CONTENDERS;

#[test]
fn stores_put_get_delete_and_open_again() {
    for contender in CONTENDERS {
        let dir = std::env::temp_dir().join(format!("esker-bench-{}-{}", contender.name, std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        let mut into = vec![0; 300_000];
        let mut store = (contender.open)(&dir).unwrap();
        store.put(b"a", &[1; 200_000], false).unwrap();
        store.put(b"b", &[2; 300_000], true).unwrap();
        store.put(b"a", &[3; 100_000], false).unwrap();
        assert_eq!(store.get(b"a", &mut into).unwrap(), Some(100_000), "{}", contender.name);
        assert!(into[..100_000].iter().all(|&byte| byte == 3), "{}", contender.name);
        store.delete(b"a").unwrap();
        assert_eq!(store.get(b"a", &mut into).unwrap(), None, "{}", contender.name);
        store.compact().unwrap();
        store.close().unwrap();
        let store = (contender.open)(&dir).unwrap();
        assert_eq!(store.get(b"a", &mut into).unwrap(), None, "{}", contender.name);
        assert_eq!(store.get(b"b", &mut into).unwrap(), Some(300_000), "{}", contender.name);
        assert!(into.iter().all(|&byte| byte == 2), "{}", contender.name);
        store.close().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
