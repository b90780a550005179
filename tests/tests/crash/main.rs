//! What is done to the services and to their database, and that nothing is lost, repeated or
//! believed without proof. Each test ends with the auditor over the database.

mod audited;
mod forge;
