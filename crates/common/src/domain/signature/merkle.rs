//! A Merkle tree as RFC 6962 builds it: a leaf is hashed behind 0x00 and a node behind 0x01, so that
//! neither passes for the other, and the left part of a tree of n leaves has the largest power of two
//! below n.
//!
//! ```text
//!   leaves of one commit:  run A: 0 1 2 | run B: 3 4 | run C: 5
//!   proof of run B (3..5): the digests of [0 1] [2] [5]: all that is needed to compute the root
//! ```

use crate::domain::json::sha256;

/// A SHA-256.
pub type Digest = [u8; 32];

/// The most leaves of a tree. A commit has far fewer.
pub(super) const MAX_LEAVES: u32 = 1 << 24;

/// The digest of a leaf.
pub fn leaf(data: &[u8]) -> Digest {
    sha256(&[&[0], data])
}

fn node(left: &Digest, right: &Digest) -> Digest {
    sha256(&[&[1], left, right])
}

/// The number of leaves in the left part of a tree of `count` leaves, which is at least 2.
const fn left_of(count: usize) -> usize {
    let half = count.div_ceil(2);
    half.next_power_of_two()
}

/// The root over leaves; the SHA-256 of nothing without any.
pub fn root(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => sha256(&[]),
        [only] => *only,
        _ => {
            let (left, right) = leaves.split_at(left_of(leaves.len()));
            node(&root(left), &root(right))
        }
    }
}

/// The digests that, with the leaves from `from` to before `to`, give the root: of each largest part
/// of the tree that has none of these leaves, from left to right.
pub fn prove(leaves: &[Digest], from: usize, to: usize) -> Vec<Digest> {
    let mut nodes = Vec::new();
    prove_part(leaves, 0, (from, to), &mut nodes);
    nodes
}

fn prove_part(
    leaves: &[Digest],
    first: usize,
    (from, to): (usize, usize),
    nodes: &mut Vec<Digest>,
) {
    let end = first + leaves.len();
    if leaves.is_empty() || (from <= first && end <= to) {
        return;
    }
    if end <= from || to <= first {
        return nodes.push(root(leaves));
    }
    let (left, right) = leaves.split_at(left_of(leaves.len()));
    prove_part(left, first, (from, to), nodes);
    prove_part(right, first + left.len(), (from, to), nodes);
}

/// The place of neighbouring leaves in a tree, and what proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeProof {
    /// The number of leaves of the whole tree.
    pub leaf_count: u32,
    /// The index of the first of these leaves, from 0.
    pub first: u32,
    /// The output of [`prove`].
    pub nodes: Vec<Digest>,
}

impl RangeProof {
    /// The root that these leaves prove; none when the proof does not fit them.
    pub fn root(&self, leaves: &[Digest]) -> Option<Digest> {
        self.whole(leaves).map(|tree| tree.digest)
    }

    /// The path of one leaf from its sibling up to the root, as RFC 6962 has it; none when the proof
    /// does not fit the leaves.
    pub fn path(&self, leaves: &[Digest], index: usize) -> Option<Vec<Digest>> {
        let wanted = usize::try_from(self.first).ok()?.checked_add(index)?;
        let mut path = Vec::new();
        self.whole(leaves)?.path_to(wanted, &mut path)?;
        path.reverse();
        Some(path)
    }

    fn whole(&self, leaves: &[Digest]) -> Option<Part> {
        let (first, count) = (usize::try_from(self.first).ok()?, self.leaf_count);
        let to = first.checked_add(leaves.len())?;
        let count = usize::try_from(count).ok().filter(|count| to <= *count && count <= &MAX)?;
        let mut nodes = self.nodes.iter();
        let part = Builder { leaves, from: first, to }.part(0, count, &mut nodes)?;
        (nodes.next().is_none() && !leaves.is_empty()).then_some(part)
    }
}

const MAX: usize = MAX_LEAVES as usize;

/// A part of a tree, as far as it is known.
struct Part {
    first: usize,
    count: usize,
    digest: Digest,
    halves: Option<Box<(Part, Part)>>,
}

impl Part {
    fn path_to(&self, leaf: usize, path: &mut Vec<Digest>) -> Option<()> {
        let Some(halves) = &self.halves else {
            return (self.first == leaf && self.count == 1).then_some(());
        };
        let (left, right) = &**halves;
        let (inside, beside) = if leaf < right.first { (left, right) } else { (right, left) };
        path.push(beside.digest);
        inside.path_to(leaf, path)
    }
}

struct Builder<'a> {
    leaves: &'a [Digest],
    from: usize,
    to: usize,
}

impl Builder<'_> {
    fn part(
        &self,
        first: usize,
        count: usize,
        nodes: &mut std::slice::Iter<'_, Digest>,
    ) -> Option<Part> {
        let end = first + count;
        if end <= self.from || self.to <= first {
            return Some(Part { first, count, digest: *nodes.next()?, halves: None });
        }
        if count == 1 {
            let digest = *self.leaves.get(first - self.from)?;
            return Some(Part { first, count, digest, halves: None });
        }
        let left = left_of(count);
        let left_part = self.part(first, left, nodes)?;
        let right_part = self.part(first + left, count - left, nodes)?;
        let digest = node(&left_part.digest, &right_part.digest);
        Some(Part { first, count, digest, halves: Some(Box::new((left_part, right_part))) })
    }
}

/// The root that a leaf and its path give, as RFC 6962 checks it.
pub fn root_of_path(leaf: Digest, index: u32, count: u32, path: &[Digest]) -> Option<Digest> {
    if index >= count {
        return None;
    }
    let (mut place, mut last, mut digest) = (index, count - 1, leaf);
    for beside in path {
        if last == 0 {
            return None;
        }
        if place & 1 == 1 || place == last {
            digest = node(beside, &digest);
            while place & 1 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            digest = node(&digest, beside);
        }
        place >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaves(count: usize) -> Vec<Digest> {
        (0..count).map(|number| leaf(&number.to_be_bytes())).collect()
    }

    #[test]
    fn a_leaf_is_no_node_and_the_left_part_is_a_power_of_two() {
        let three = leaves(3);
        let [a, b, c] = three.as_slice() else { panic!("{three:?}") };
        assert_eq!(root(&three), node(&node(a, b), c));
        assert_ne!(node(a, b), leaf(&[&a[..], b].concat()));
        assert_eq!(root(&leaves(1)), leaf(&0_usize.to_be_bytes()));
    }

    proptest! {
        #[test]
        fn a_proof_gives_the_root_for_its_leaves_and_for_no_others(
            count in 1_usize..70, from in any::<prop::sample::Index>(), length in any::<prop::sample::Index>(),
            change in any::<(prop::sample::Index, bool, bool)>(),
        ) {
            let all = leaves(count);
            let from = from.index(count);
            let to = from + 1 + length.index(count - from);
            let mut proof = RangeProof {
                leaf_count: u32::try_from(count).unwrap(),
                first: u32::try_from(from).unwrap(),
                nodes: prove(&all, from, to),
            };
            let mut own = all[from..to].to_vec();
            prop_assert_eq!(proof.root(&own), Some(root(&all)));
            for (place, leaf) in own.iter().enumerate() {
                let path = proof.path(&own, place).unwrap();
                let index = u32::try_from(from + place).unwrap();
                prop_assert_eq!(root_of_path(*leaf, index, proof.leaf_count, &path), Some(root(&all)));
            }
            let (place, of_nodes, moves) = change;
            if moves && count > 1 {
                proof.first = (proof.first + 1) % proof.leaf_count;
            } else if of_nodes && !proof.nodes.is_empty() {
                let place = place.index(proof.nodes.len());
                proof.nodes[place][5] ^= 1;
            } else {
                let place = place.index(own.len());
                own[place][31] ^= 128;
            }
            prop_assert_ne!(proof.root(&own), Some(root(&all)));
        }

        #[test]
        fn any_numbers_are_refused_without_a_panic(
            leaf_count in any::<u32>(), first in any::<u32>(), nodes in 0_usize..9, own in 0_usize..9,
        ) {
            let proof = RangeProof { leaf_count, first, nodes: leaves(nodes) };
            prop_assert_ne!(proof.root(&leaves(own)), Some([0; 32]));
            prop_assert!(proof.path(&leaves(own), 3).is_none_or(|path| path.len() < 33));
        }
    }
}
