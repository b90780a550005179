//! Files that cannot be used are refused with their setting, their path and what to do.

use super::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    /// The self-signed certificates `a` and `b`, each with its key.
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for name in ["a", "b"] {
            let CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(vec![format!("{name}.test")]).unwrap();
            folder.write(&format!("{name}.pem"), &cert.pem());
            folder.write(&format!("{name}.key"), &signing_key.serialize_pem());
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        allow(&path, 0o600);
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            cert: Some(self.path("a.pem")),
            key: Some(self.path("a.key")),
            ca: Some(self.path("a.pem")),
            client_ca: Some(self.path("a.pem")),
            ..TlsFiles::default()
        }
    }
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn refusal(files: TlsFiles) -> String {
    Tls::load(files).unwrap_err().to_string()
}

#[test]
fn a_file_that_cannot_be_used_is_refused_with_its_setting_its_path_and_what_to_do() {
    let folder = Folder::new();
    folder.write("text", "no certificate");
    folder.write("damaged", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert!(Tls::load(folder.files()).is_ok());
    let (some, files) = (|name: &str| Some(folder.path(name)), folder.files());
    let cases = [
        (TlsFiles { cert: some("none"), ..files.clone() }, "none", "SURETY_TLS_CERT_FILE", "Check"),
        (TlsFiles { key: some("none"), ..files.clone() }, "none", "SURETY_TLS_KEY_FILE", "Check"),
        (TlsFiles { ca: some("none"), ..files.clone() }, "none", "SURETY_TLS_CA_FILE", "Check"),
        (TlsFiles { client_ca: some("none"), ..files.clone() }, "none", "_CLIENT_CA_FILE", "Check"),
        (TlsFiles { cert: some("text"), ..files.clone() }, "text", "_CERT_FILE", "-----BEGIN"),
        (TlsFiles { cert: some("a.key"), ..files.clone() }, "a.key", "_CERT_FILE", "-----BEGIN"),
        (TlsFiles { key: some("a.pem"), ..files.clone() }, "a.pem", "_KEY_FILE", "private key"),
        (
            TlsFiles { ca: some("text"), ..files.clone() },
            "text",
            "SURETY_TLS_CA_FILE",
            "-----BEGIN",
        ),
        (TlsFiles { ca: some("damaged"), ..files.clone() }, "damaged", "_TLS_CA_FILE", "Replace"),
        (
            TlsFiles { client_ca: some("damaged"), ..files.clone() },
            "damaged",
            "_CLIENT_CA_",
            "Replace",
        ),
        (TlsFiles { key: some("b.key"), ..files.clone() }, "b.key", "a.pem", "issued for"),
        (TlsFiles { cert: some("damaged"), ..files.clone() }, "damaged", "a.key", "issued for"),
    ];
    for (files, path, setting, advice) in cases {
        let said = refusal(files);
        for expected in [path, setting, advice] {
            assert!(said.contains(expected), "{said}: {expected}");
        }
    }
    allow(&folder.path("a.key"), 0o644);
    assert!(refusal(files).contains("chmod 600"));
}

#[test]
fn settings_that_have_no_effect_alone_are_refused() {
    let folder = Folder::new();
    let files = folder.files();
    let cases = [
        (TlsFiles { key: None, ..files.clone() }, "SURETY_TLS_KEY_FILE"),
        (TlsFiles { cert: None, ..files.clone() }, "SURETY_TLS_CERT_FILE"),
        (TlsFiles { cert: None, key: None, ..files.clone() }, "SURETY_TLS_CERT_FILE"),
        (
            TlsFiles { client_ca: None, require_client_certificate: true, ..files.clone() },
            "SURETY_TLS_CLIENT_CA_FILE",
        ),
        (
            TlsFiles { client_ca: None, identities: Some(folder.path("a.pem")), ..files },
            "SURETY_TLS_CLIENT_CA_FILE",
        ),
    ];
    for (files, setting) in cases {
        let said = refusal(files);
        assert!(said.contains(setting), "{said}");
    }
}

#[test]
fn an_invalid_line_of_the_identities_is_refused_with_its_number() {
    let folder = Folder::new();
    for (text, expected) in [
        ("alice alice viewer *\n", "begin it with dns:"),
        ("dns: alice viewer *\n", "begin it with dns:"),
        ("# map\ndns:a alice viewer\n", "line 2 of"),
        ("dns:a alice viewer\n", "four columns"),
        ("dns:a alice god *\n", "no role"),
        ("dns:a alice driver,approver *\n", "never approve"),
        ("dns:a alice viewer *\ndns:a bob viewer *\n", "Keep one"),
    ] {
        folder.write("identities", text);
        let files = TlsFiles { identities: Some(folder.path("identities")), ..folder.files() };
        let said = refusal(files);
        assert!(said.contains(expected) && said.contains("SURETY_TLS_IDENTITIES_FILE"), "{said}");
    }
}

#[test]
fn changed_files_are_loaded_and_files_that_cannot_be_used_keep_the_loaded_ones() {
    let folder = Folder::new();
    let tls = Tls::load(folder.files()).unwrap();
    let (before, mut refused) = (tls.server().unwrap(), None);
    tls.inner.reload_if_changed(&mut refused);
    assert!(Arc::ptr_eq(&before, &tls.server().unwrap()), "unchanged files are not read again");

    folder.write("a.pem", &std::fs::read_to_string(folder.path("b.pem")).unwrap());
    tls.inner.reload_if_changed(&mut refused);
    assert!(refused.is_some() && Arc::ptr_eq(&before, &tls.server().unwrap()));

    folder.write("a.key", &std::fs::read_to_string(folder.path("b.key")).unwrap());
    tls.inner.reload_if_changed(&mut refused);
    assert!(refused.is_none() && !Arc::ptr_eq(&before, &tls.server().unwrap()));
}
