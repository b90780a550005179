//! The settings of certificates, and of hosts without TLS.

use super::{Accepts, Group, Setting};

pub(in crate::config) const TLS_CERT_FILE: Setting = Setting {
    group: Group::Common,
    flag: "tls-cert-file",
    env: "SURETY_TLS_CERT_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The certificate chain of this process in PEM, its own certificate first. A service with one \
              serves TLS only, on every path of its port. As a client, the process shows it to services that \
              request a certificate. Changed files are loaded within two seconds, without a restart.",
    secret: false,
};

pub(in crate::config) const TLS_KEY_FILE: Setting = Setting {
    group: Group::Common,
    flag: "tls-key-file",
    env: "SURETY_TLS_KEY_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The private key of --tls-cert-file, in PEM. It must not be readable by every user of the \
              machine.",
    secret: false,
};

pub(in crate::config) const TLS_CA_FILE: Setting = Setting {
    group: Group::Common,
    flag: "tls-ca-file",
    env: "SURETY_TLS_CA_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The certificate authorities, in PEM, of the services and of the OTLP receiver that this \
              process calls with https. By default the authorities of the system.",
    secret: false,
};

pub(in crate::config) const TLS_CLIENT_CA_FILE: Setting = Setting {
    group: Group::Common,
    flag: "tls-client-ca-file",
    env: "SURETY_TLS_CLIENT_CA_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The certificate authorities of clients, in PEM. With it, a service requests a certificate from \
              each client, and accepts clients without one unless --tls-require-client-certificate is set.",
    secret: false,
};

pub(in crate::config) const TLS_REQUIRE_CLIENT_CERTIFICATE: Setting = Setting {
    group: Group::Common,
    flag: "tls-require-client-certificate",
    env: "SURETY_TLS_REQUIRE_CLIENT_CERTIFICATE",
    default: "false",
    accepts: Accepts::Switch,
    meaning: "Refuse every connection of a client without a certificate of --tls-client-ca-file, including \
              health probes and scrapes of metrics.",
    secret: false,
};

pub(in crate::config) const TLS_IDENTITIES_FILE: Setting = Setting {
    group: Group::Common,
    flag: "tls-identities-file",
    env: "SURETY_TLS_IDENTITIES_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file that maps client certificates to identities, one line each: a name in the certificate \
              (`dns:`, `uri:` or `email:` for a subject alternative name, `subject:` for the whole subject, `cn:` \
              for its common name), then name, roles and namespaces as in --token-file. A token in the call has \
              precedence.",
    secret: false,
};

pub(in crate::config) const PLAINTEXT_PEERS: Setting = Setting {
    group: Group::Common,
    flag: "plaintext-peers",
    env: "SURETY_PLAINTEXT_PEERS",
    default: "",
    accepts: Accepts::Hosts,
    meaning: "Hosts to which a token may be sent without TLS, because another layer encrypts the connection, \
              such as a service mesh. Every other host except loopback needs https.",
    secret: false,
};
