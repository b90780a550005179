//! The type, module or function around a definition.

use tree_sitter::Node;

/// The ends of the kinds of nodes that contain definitions and have a field `name`.
const NAMED: [&str; 7] =
    ["_item", "_declaration", "_definition", "_specifier", "_spec", "class", "module"];

/// The most types around a type, such as the pointer of a generic one.
const NESTED_TYPES: usize = 8;

/// The name of what contains a definition; none for a definition of the file itself.
pub(super) fn container_of<'s>(
    root: Node<'_>,
    definition: Node<'_>,
    source: &'s str,
) -> Option<&'s str> {
    // A method of Go names its type itself.
    if let Some(receiver) = definition.child_by_field_name("receiver") {
        return base_type(receiver.named_child(0)?.child_by_field_name("type")?, source);
    }
    let mut found = None;
    let mut around = root;
    // From the root down: a step up searches from the root each time.
    while let Some(child) = around.child_with_descendant(definition) {
        if child == definition {
            break;
        }
        found = name_of(child, source).or(found);
        around = child;
    }
    found
}

fn name_of<'s>(node: Node<'_>, source: &'s str) -> Option<&'s str> {
    if node.kind() == "impl_item" {
        return base_type(node.child_by_field_name("type")?, source);
    }
    if !NAMED.iter().any(|end| node.kind().ends_with(end)) {
        return None;
    }
    source.get(node.child_by_field_name("name")?.byte_range())
}

/// The name of a type without pointers, parameters and paths.
fn base_type<'s>(node: Node<'_>, source: &'s str) -> Option<&'s str> {
    let mut node = node;
    for _ in 0..NESTED_TYPES {
        if node.kind() == "type_identifier" {
            return source.get(node.byte_range());
        }
        let name = node.child_by_field_name("name");
        let inner = name.or_else(|| node.child_by_field_name("type"));
        node = inner.or_else(|| node.named_child(0))?;
    }
    None
}
