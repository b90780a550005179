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

/// Stands before the data of a leaf.
pub(super) const LEAF: &[u8] = &[0];

/// The digest of a leaf.
pub fn leaf(data: &[u8]) -> Digest {
    sha256(&[LEAF, data])
}

fn node(left: &Digest, right: &Digest) -> Digest {
    sha256(&[&[1], left, right])
}

/// The number of leaves in the left part of a tree of `count` leaves, which is at least 2.
const fn left_of(count: usize) -> usize {
    let half = count.div_ceil(2);
    half.next_power_of_two()
}

/// A tree over the leaves of a commit, whose digests are computed once for all proofs.
#[derive(Debug)]
pub struct Tree(Part);

impl Tree {
    /// Over leaves; none without any.
    pub fn over(leaves: &[Digest]) -> Option<Self> {
        Part::over(0, leaves).map(Self)
    }

    /// Its root.
    pub const fn root(&self) -> Digest {
        self.0.digest
    }

    /// The digests that, with the leaves from `from` to before `to`, give the root: of each largest part of the tree
    /// that has none of these leaves, from left to right.
    pub fn prove(&self, from: usize, to: usize) -> Vec<Digest> {
        let mut nodes = Vec::new();
        self.0.prove((from, to), &mut nodes);
        nodes
    }
}

/// The place of neighbouring leaves in a tree, and what proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeProof {
    /// The number of leaves of the whole tree.
    pub leaf_count: u32,
    /// The index of the first of these leaves, from 0.
    pub first: u32,
    /// The output of [`Tree::prove`].
    pub nodes: Vec<Digest>,
}

impl RangeProof {
    /// The root that these leaves prove; none when the proof does not fit them.
    pub fn root(&self, leaves: &[Digest]) -> Option<Digest> {
        let (first, count) = (usize::try_from(self.first).ok()?, self.leaf_count);
        let to = first.checked_add(leaves.len())?;
        let count = usize::try_from(count).ok().filter(|count| to <= *count && count <= &MAX)?;
        let mut nodes = self.nodes.iter();
        let digest =
            Builder { leaves, from: first, to }.part((0, count), &mut nodes, &mut |_| ())?;
        (nodes.next().is_none() && !leaves.is_empty()).then_some(digest)
    }

    /// The root, and for each of these leaves its siblings from the leaf up to the root; none when the proof does not fit
    /// them.
    pub fn paths(&self, leaves: &[Digest]) -> Option<(Digest, Vec<Vec<Digest>>)> {
        // The root first: it bounds the numbers.
        let root = self.root(leaves)?;
        let (from, count) =
            (usize::try_from(self.first).ok()?, usize::try_from(self.leaf_count).ok()?);
        let builder = Builder { leaves, from, to: from + leaves.len() };
        let mut paths = vec![Vec::new(); leaves.len()];
        let mut joined = |Joined { first, middle, end, left, right }: Joined| {
            for (index, path) in (from..).zip(&mut paths) {
                if (first..middle).contains(&index) {
                    path.push(right);
                } else if (middle..end).contains(&index) {
                    path.push(left);
                }
            }
        };
        builder.part((0, count), &mut self.nodes.iter(), &mut joined)?;
        Some((root, paths))
    }
}

/// The root over a leaf with this index in a tree of so many leaves, by the siblings from the leaf up to the root; none
/// where they are too many or too few.
pub(super) fn path_root(
    leaf: Digest,
    (index, count): (u32, u32),
    path: &[Digest],
) -> Option<Digest> {
    let (index, count) = (usize::try_from(index).ok()?, usize::try_from(count).ok()?);
    (index < count && count <= MAX).then(|| climb(leaf, index, count, path))?
}

fn climb(leaf: Digest, index: usize, count: usize, path: &[Digest]) -> Option<Digest> {
    if count == 1 {
        return path.is_empty().then_some(leaf);
    }
    let (sibling, below) = path.split_last()?;
    let left = left_of(count);
    match index.checked_sub(left) {
        None => Some(node(&climb(leaf, index, left, below)?, sibling)),
        Some(index) => Some(node(sibling, &climb(leaf, index, count - left, below)?)),
    }
}

const MAX: usize = MAX_LEAVES as usize;

/// A part of a tree.
#[derive(Debug)]
struct Part {
    first: usize,
    count: usize,
    digest: Digest,
    halves: Option<Box<(Part, Part)>>,
}

impl Part {
    fn over(first: usize, leaves: &[Digest]) -> Option<Self> {
        let count = leaves.len();
        if let [only] = leaves {
            return Some(Self { first, count, digest: *only, halves: None });
        }
        let (left, right) = leaves.split_at_checked(left_of(count))?;
        let halves = (Self::over(first, left)?, Self::over(first + left.len(), right)?);
        let digest = node(&halves.0.digest, &halves.1.digest);
        Some(Self { first, count, digest, halves: Some(Box::new(halves)) })
    }

    fn prove(&self, (from, to): (usize, usize), nodes: &mut Vec<Digest>) {
        let end = self.first + self.count;
        if from <= self.first && end <= to {
            return;
        }
        if end <= from || to <= self.first {
            return nodes.push(self.digest);
        }
        if let Some(halves) = &self.halves {
            halves.0.prove((from, to), nodes);
            halves.1.prove((from, to), nodes);
        }
    }
}

struct Builder<'a> {
    leaves: &'a [Digest],
    from: usize,
    to: usize,
}

/// A part of a tree with known leaves, and the digests of its halves.
struct Joined {
    first: usize,
    middle: usize,
    end: usize,
    left: Digest,
    right: Digest,
}

impl Builder<'_> {
    /// The digest of a part of so many leaves from the first on. Shows `joined` each part whose halves were joined.
    fn part(
        &self,
        (first, count): (usize, usize),
        nodes: &mut std::slice::Iter<'_, Digest>,
        joined: &mut impl FnMut(Joined),
    ) -> Option<Digest> {
        let end = first + count;
        if end <= self.from || self.to <= first {
            return nodes.next().copied();
        }
        if count == 1 {
            return self.leaves.get(first - self.from).copied();
        }
        let middle = first + left_of(count);
        let left = self.part((first, middle - first), nodes, joined)?;
        let right = self.part((middle, end - middle), nodes, joined)?;
        joined(Joined { first, middle, end, left, right });
        Some(node(&left, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaves(count: usize) -> Vec<Digest> {
        (0..count).map(|number| leaf(&number.to_be_bytes())).collect()
    }

    fn root(leaves: &[Digest]) -> Option<Digest> {
        Tree::over(leaves).map(|tree| tree.root())
    }

    #[test]
    fn a_leaf_is_no_node_and_the_left_part_is_a_power_of_two() {
        let three = leaves(3);
        let [a, b, c] = three.as_slice() else { panic!("{three:?}") };
        assert_eq!(root(&three), Some(node(&node(a, b), c)));
        assert_ne!(node(a, b), leaf(&[&a[..], b].concat()));
        assert_eq!(root(&leaves(1)), Some(leaf(&0_usize.to_be_bytes())));
        assert_eq!(root(&[]), None);
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
                nodes: Tree::over(&all).unwrap().prove(from, to),
            };
            let mut own = all[from..to].to_vec();
            prop_assert_eq!(proof.root(&own), root(&all));
            let (found, paths) = proof.paths(&own).unwrap();
            prop_assert_eq!(Some(found), root(&all));
            for (index, (leaf, path)) in (proof.first..).zip(own.iter().zip(&paths)) {
                let of_one = |leaf, index, path: &[Digest]| path_root(leaf, (index, proof.leaf_count), path);
                prop_assert_eq!(of_one(*leaf, index, path), Some(found));
                prop_assert_ne!(of_one([9; 32], index, path), Some(found));
                prop_assert_ne!(of_one(*leaf, index, &[&path[..], &[[9; 32]]].concat()), Some(found));
                prop_assert_eq!(of_one(*leaf, proof.leaf_count, path), None);
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
            prop_assert_ne!(proof.root(&own), root(&all));
        }

        #[test]
        fn any_numbers_are_refused_without_a_panic(
            leaf_count in any::<u32>(), first in any::<u32>(), nodes in 0_usize..9, own in 0_usize..9,
        ) {
            let proof = RangeProof { leaf_count, first, nodes: leaves(nodes) };
            prop_assert_ne!(proof.root(&leaves(own)), Some([0; 32]));
        }
    }
}
