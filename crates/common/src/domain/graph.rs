//! Dependency graphs of steps and of todos.

use std::collections::HashMap;

/// How many ids of a cycle are listed; of a longer one the rest is counted.
const NAMED_IDS: usize = 20;

/// One node and the ids it depends on.
pub type Node<'a> = (&'a str, &'a [String]);

/// The first cycle found by following dependencies from each node in order, with its first id
/// repeated at the end. None when there is no cycle; unknown ids are ignored.
///
/// It takes linear time and no recursion, because the size of a plan is not limited yet at this
/// point.
pub fn find_cycle(nodes: &[Node<'_>]) -> Option<Vec<String>> {
    let index: HashMap<&str, usize> = nodes.iter().map(|node| node.0).zip(0..).collect();
    let mut walk = Walk { marks: vec![Mark::New; nodes.len()], path: Vec::new() };
    for start in 0..nodes.len() {
        walk.enter(start);
        while let Some((node, edge)) = walk.path.last().copied() {
            let next = nodes.get(node).and_then(|(_, edges)| edges.get(edge));
            let Some(next) = next else {
                walk.leave(node);
                continue;
            };
            walk.advance();
            if let Some(&target) = index.get(next.as_str())
                && let Some(cycle) = walk.enter(target)
            {
                let ids = cycle.iter().filter_map(|&at| nodes.get(at));
                return Some(ids.map(|node| node.0.to_owned()).collect());
            }
        }
    }
    None
}

/// A cycle as text, such as `a -> c -> a`. The middle of a long one is counted, which bounds the
/// message.
pub fn name_cycle(cycle: &[String]) -> String {
    match cycle.split_at_checked(NAMED_IDS) {
        Some((first, [between @ .., last])) if !between.is_empty() => {
            let first = first.join(" -> ");
            format!("{first} -> ({} more) -> {last}", between.len())
        }
        Some(_) | None => cycle.join(" -> "),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Left,
}

struct Walk {
    marks: Vec<Mark>,
    /// Each node on the path, and how many of its edges were followed.
    path: Vec<(usize, usize)>,
}

impl Walk {
    /// Enters a node; returns the cycle when the node is already on the path.
    fn enter(&mut self, node: usize) -> Option<Vec<usize>> {
        match self.marks.get(node)? {
            Mark::New => self.path.push((node, 0)),
            Mark::Left => return None,
            Mark::OnPath => {
                let on_path = self.path.iter().map(|step| step.0);
                let mut cycle: Vec<usize> = on_path.skip_while(|&at| at != node).collect();
                cycle.push(node);
                return Some(cycle);
            }
        }
        self.mark(node, Mark::OnPath);
        None
    }

    fn advance(&mut self) {
        if let Some(step) = self.path.last_mut() {
            step.1 += 1;
        }
    }

    fn leave(&mut self, node: usize) {
        self.path.pop();
        self.mark(node, Mark::Left);
    }

    fn mark(&mut self, node: usize, mark: Mark) {
        if let Some(slot) = self.marks.get_mut(node) {
            *slot = mark;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(edges: &[(&str, &[&str])]) -> Option<String> {
        let owned: Vec<(&str, Vec<String>)> = edges
            .iter()
            .map(|(id, deps)| (*id, deps.iter().map(|dep| (*dep).to_owned()).collect()))
            .collect();
        let nodes: Vec<Node<'_>> = owned.iter().map(|(id, deps)| (*id, &deps[..])).collect();
        find_cycle(&nodes).map(|ids| name_cycle(&ids))
    }

    #[test]
    fn a_cycle_is_named_along_the_dependencies_from_its_first_step() {
        assert_eq!(
            cycle(&[("a", &["c"]), ("b", &["a"]), ("c", &["b"])]).as_deref(),
            Some("a -> c -> b -> a")
        );
        assert_eq!(
            cycle(&[("x", &["a"]), ("a", &["b"]), ("b", &["a"])]).as_deref(),
            Some("a -> b -> a")
        );
        assert_eq!(cycle(&[("a", &["a"])]).as_deref(), Some("a -> a"));
    }

    #[test]
    fn a_diamond_and_an_unknown_id_are_no_cycle() {
        assert_eq!(
            cycle(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d", "zz"]), ("d", &[])]),
            None
        );
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_steps_exhausts_no_stack() {
        let ids: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let deps: Vec<Vec<String>> = ids.iter().skip(1).map(|id| vec![id.clone()]).collect();
        let mut nodes: Vec<Node<'_>> =
            ids.iter().zip(&deps).map(|(id, deps)| (id.as_str(), &deps[..])).collect();
        assert_eq!(find_cycle(&nodes), None);
        let back = vec!["0".to_owned()];
        nodes.push((ids[99_999].as_str(), &back));
        let found = find_cycle(&nodes).unwrap();
        assert_eq!(found.len(), 100_001);
        let named = name_cycle(&found);
        assert!(named.ends_with("-> 19 -> (99980 more) -> 0"), "{named}");
    }
}
