//! Addresses that the operator lets a service call.

use std::collections::BTreeSet;

/// The hosts and ports that a service may call.
#[derive(Debug, Clone)]
pub struct AllowedAddresses(BTreeSet<String>);

impl AllowedAddresses {
    /// Reads a list of `host:port` with commas between them, in any case; none allows no address.
    pub fn read(list: Option<&str>) -> Self {
        let addresses = list.unwrap_or_default().split(',');
        let addresses = addresses.map(|address| address.trim().to_ascii_lowercase());
        Self(addresses.filter(|address| !address.is_empty()).collect())
    }

    /// How the list names an address.
    pub fn named(host: &str, port: u16) -> String {
        format!("{}:{port}", host.to_ascii_lowercase())
    }

    /// Whether no address is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is allowed, by its name in the list.
    pub fn contains(&self, named: &str) -> bool {
        self.0.contains(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_list_is_allowed_in_any_case_and_no_other_port() {
        let allowed = AllowedAddresses::read(Some(" Example.org:443 ,,127.0.0.1:80"));
        for (host, port, expected) in
            [("example.ORG", 443, true), ("127.0.0.1", 80, true), ("example.org", 80, false)]
        {
            assert_eq!(allowed.contains(&AllowedAddresses::named(host, port)), expected, "{host}");
        }
        assert!(AllowedAddresses::read(None).is_empty());
        assert!(AllowedAddresses::read(Some(" , ")).is_empty());
    }
}
