use super::*;
use crate::access::tokens::NewToken;
use pando::ErrorKind;

fn admit(keeper: &Gatekeeper, headers: &HeaderMap, need: Need<'_>) -> Answer<Turn> {
    keeper.admit(headers, need, || Ok(()))
}

fn headers(authorization: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().unwrap())])
}

#[test]
fn a_token_opens_what_its_scope_says() {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::in_dir(dir.path());
    let keeper = Gatekeeper::new(dir.path()).unwrap();
    assert!(admit(&keeper, &HeaderMap::new(), Need::All(Scope::Admin)).is_ok(), "no tokens, no guard");
    let closed = keeper.admit(&HeaderMap::new(), Need::Nothing, || Err(forbidden()));
    assert_eq!(closed.unwrap_err().status, StatusCode::FORBIDDEN);
    assert_eq!(keeper.rights(&HeaderMap::new()).in_all(), Some(Scope::Admin));
    let reader = file.create("reader", Scope::Read, Some("a".into())).unwrap();
    let admin = file.create("admin", Scope::Admin, None).unwrap();
    keeper.refresh().unwrap();
    let status =
        |headers: &HeaderMap, need| admit(&keeper, headers, need).map(drop).map_err(|p| p.status.as_u16());
    let bearer = |token: &str| headers(&format!("Bearer {token}"));
    assert_eq!(status(&HeaderMap::new(), Need::Any), Err(401));
    assert_eq!(status(&HeaderMap::new(), Need::Nothing), Ok(()));
    let guarded = keeper.admit(&bearer(&admin), Need::Any, || Err(forbidden()));
    assert!(guarded.is_ok(), "it decides only without tokens");
    assert_eq!(status(&bearer("pando_wrong"), Need::Any), Err(401));
    assert_eq!(status(&bearer(&reader), Need::In("a", Scope::Read)), Ok(()));
    assert_eq!(status(&bearer(&reader), Need::In("a", Scope::Write)), Err(403));
    assert_eq!(status(&bearer(&reader), Need::In("b", Scope::Read)), Err(403));
    assert_eq!(status(&bearer(&reader), Need::All(Scope::Read)), Err(403));
    assert_eq!(status(&bearer(&admin), Need::All(Scope::Admin)), Ok(()));
    assert_eq!(status(&headers("bearer"), Need::Any), Err(401));
    let detail = |headers: &HeaderMap| admit(&keeper, headers, Need::Any).unwrap_err().detail;
    assert!(detail(&HeaderMap::new()).contains("a token is required"));
    assert!(detail(&bearer("pando_wrong")).contains("was revoked, or has expired"));
    let rights = |token: &str| {
        let rights = keeper.rights(&bearer(token));
        (rights.in_all(), rights.in_database("a"), rights.in_database("b"))
    };
    assert_eq!(rights(&reader), (None, Some(Scope::Read), None));
    assert_eq!(rights(&admin), (Some(Scope::Admin), Some(Scope::Admin), Some(Scope::Admin)));
    assert_eq!(rights("pando_wrong"), (None, None, None));
}

fn new_token(name: &str) -> NewToken<'_> {
    NewToken { name, scope: Scope::Read, database: None, rate: None, concurrency: None, lives_for: None }
}

#[test]
fn a_token_has_no_more_requests_at_a_time_than_it_allows() {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::in_dir(dir.path());
    let limited = |name, concurrency| NewToken { concurrency, ..new_token(name) };
    let token = file.create_as(limited("two", Some(2))).unwrap();
    let keeper = Gatekeeper::new(dir.path()).unwrap();
    let bearer = headers(&format!("Bearer {token}"));
    let admit = || admit(&keeper, &bearer, Need::Any);
    let (first, second) = (admit().unwrap(), admit().unwrap());
    assert!(first.is_some() && second.is_some());
    let refused = admit().unwrap_err();
    assert_eq!((refused.status.as_u16(), refused.kind), (429, "concurrency-limit"));
    assert_eq!(refused.retry_after_s, Some(1));
    // The turns survive that the file is read again, for another token.
    file.create("other", Scope::Read, None).unwrap();
    keeper.refresh().unwrap();
    assert!(admit().is_err());
    drop(first);
    assert!(admit().is_ok());
    let none = file.create_as(limited("none", Some(0)));
    assert_eq!(none.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn the_last_token_revoked_leaves_the_door_shut() {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::in_dir(dir.path());
    let token = file.create("only", Scope::Admin, None).unwrap();
    let keeper = Gatekeeper::new(dir.path()).unwrap();
    assert_eq!(file.create("only", Scope::Read, None).unwrap_err().kind(), ErrorKind::Exists);
    file.revoke("only").unwrap();
    keeper.refresh().unwrap();
    let bearer = headers(&format!("Bearer {token}"));
    assert_eq!(admit(&keeper, &bearer, Need::Any).unwrap_err().status, StatusCode::UNAUTHORIZED);
    assert_eq!(file.revoke("only").unwrap_err().kind(), ErrorKind::Missing);
}

#[test]
fn without_its_file_a_running_server_knows_no_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::in_dir(dir.path());
    let token = file.create("ops", Scope::Admin, None).unwrap();
    let keeper = Gatekeeper::new(dir.path()).unwrap();
    let bearer = headers(&format!("Bearer {token}"));
    let path = dir.path().join("tokens.json");
    let stored = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        keeper.refresh().unwrap();
        assert!(keeper.is_on_guard());
        for headers in [&bearer, &HeaderMap::new()] {
            let refused = admit(&keeper, headers, Need::Any).unwrap_err();
            assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        }
    }
    // What a restart does.
    assert!(!Gatekeeper::new(dir.path()).unwrap().is_on_guard());
    // A file that cannot be read changes nothing.
    std::fs::create_dir(&path).unwrap();
    assert!(keeper.refresh().is_err() && admit(&keeper, &bearer, Need::Any).is_err());
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, stored).unwrap();
    keeper.refresh().unwrap();
    assert!(admit(&keeper, &bearer, Need::Any).is_ok(), "the file is back");
}

#[test]
fn a_token_ends_with_its_time_and_its_last_use_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::in_dir(dir.path());
    let new = |name, lives_for| NewToken { lives_for, ..new_token(name) };
    let lasting = file.create_as(new("lasting", None)).unwrap();
    let brief = file.create_as(new("brief", Some(Duration::from_secs(60)))).unwrap();
    let keeper = Gatekeeper::new(dir.path()).unwrap();
    let admit = |token: &str| admit(&keeper, &headers(&format!("Bearer {token}")), Need::Any).is_ok();
    let used = || keeper.last_uses().into_iter().map(|(_, used)| used.is_some()).collect::<Vec<_>>();
    assert_eq!(used(), [false, false]);
    assert!(admit(&brief));
    assert_eq!(used(), [false, true]);
    // Half a minute after its end, in a file that says so.
    let path = dir.path().join("tokens.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let expires_s = file.list().unwrap()[1].expires_s.unwrap();
    std::fs::write(&path, text.replace(&expires_s.to_string(), &(now_s() - 30).to_string())).unwrap();
    keeper.refresh().unwrap();
    assert!(admit(&lasting) && !admit(&brief));
    assert_eq!(used(), [true, true], "reading the file again forgets no use");
    assert!(file.list().unwrap()[1].is_expired());
    assert_eq!(file.create_as(new("x", Some(Duration::ZERO))).unwrap_err().kind(), ErrorKind::Invalid);
}
