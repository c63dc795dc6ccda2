//! Tests of the table as a whole.
use super::*;
#[test]
fn smoke() {
    let mut t: Table<String> = Table::new();
    for i in 0..5000u32 {
        let k = format!("k{i}");
        t.put(hash_key(k.as_bytes()), k.as_bytes(), NewValue::Bytes(k.as_bytes()), Expiry::Never);
    }
    assert_eq!(t.len(), 5000);
    for i in 0..5000u32 {
        let k = format!("k{i}");
        assert!(t.find(hash_key(k.as_bytes()), k.as_bytes()).is_some());
    }
    assert_eq!(t.iter().count(), 5000);
    let mut pos = Some(ScanPos(0));
    let mut n = 0;
    while let Some(p) = pos {
        pos = t.scan(p, &mut |_| n += 1);
    }
    assert_eq!(n, 5000);
    for i in 0..5000u32 {
        let k = format!("k{i}");
        assert!(matches!(t.remove(hash_key(k.as_bytes()), k.as_bytes()), Old::Bytes));
    }
    assert_eq!((t.len(), t.bytes()), (0, 0));
}
