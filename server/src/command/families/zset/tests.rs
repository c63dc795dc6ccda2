use crate::testing::run_script;

#[test]
fn scores_are_set_and_members_removed() {
    run_script("zset/add.txt");
}
