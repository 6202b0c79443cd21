#include "load_order.h"

#include <random>

namespace dlrm {

LoadOrder::LoadOrder(int ranks) : nodes_(static_cast<size_t>(ranks)) {
  // The priorities shape the tree, not the answers.
  std::mt19937 random(1);
  for (int rank = 0; rank < ranks; ++rank) {
    node(rank).priority = static_cast<uint32_t>(random());
    update(rank);
    root_ = merge(root_, rank);
  }
}

void LoadOrder::add(int rank, double load, double bytes) {
  root_ = erase(root_, rank);
  Node& own = node(rank);
  own.load += load;
  own.bytes += bytes;
  own.left = own.right = kNone;
  update(rank);
  root_ = insert(root_, rank);
}

void LoadOrder::set_free(int rank, bool free) {
  node(rank).free = free;
  update_path(rank);
}

int LoadOrder::last() const {
  int at = root_;
  while (node(at).right != kNone) at = node(at).right;
  return at;
}

int LoadOrder::emptiest_free(double load) const {
  int best = kNone;
  const auto consider = [&](int rank) {
    if (rank == kNone) return;
    if (best == kNone || node(rank).bytes < node(best).bytes) best = rank;
  };
  for (int at = root_; at != kNone;) {
    if (node(at).load > load) {
      at = node(at).left;
      continue;
    }
    if (node(at).left != kNone) consider(node(node(at).left).emptiest_free);
    if (node(at).free) consider(at);
    at = node(at).right;
  }
  return best;
}

std::vector<int> LoadOrder::lightest(int count) const {
  std::vector<int> ranks, above;
  int at = root_;
  while (static_cast<int>(ranks.size()) < count && (at != kNone || !above.empty())) {
    for (; at != kNone; at = node(at).left) above.push_back(at);
    at = above.back();
    above.pop_back();
    ranks.push_back(at);
    at = node(at).right;
  }
  return ranks;
}

bool LoadOrder::before(int a, int b) const {
  return node(a).load < node(b).load || (node(a).load == node(b).load && a < b);
}

void LoadOrder::update(int at) {
  Node& own = node(at);
  own.emptiest = at;
  own.emptiest_free = kNone;
  const auto consider_free = [&](int rank) {
    if (rank == kNone) return;
    const int best = own.emptiest_free;
    if (best == kNone || node(rank).bytes < node(best).bytes) own.emptiest_free = rank;
  };
  if (own.left != kNone) consider_free(node(own.left).emptiest_free);
  if (own.free) consider_free(at);
  if (own.right != kNone) consider_free(node(own.right).emptiest_free);
  for (const int child : {own.left, own.right}) {
    if (child == kNone) continue;
    const int rank = node(child).emptiest;
    const double bytes = node(rank).bytes, best = node(own.emptiest).bytes;
    if (bytes < best || (bytes == best && rank < own.emptiest)) own.emptiest = rank;
  }
}

void LoadOrder::update_path(int rank) {
  std::vector<int> path;
  for (int at = root_; at != rank; at = before(rank, at) ? node(at).left : node(at).right) {
    path.push_back(at);
  }
  update(rank);
  for (; !path.empty(); path.pop_back()) update(path.back());
}

int LoadOrder::insert(int at, int rank) {
  if (at == kNone) return rank;
  if (node(rank).priority > node(at).priority) {
    split(at, rank, node(rank).left, node(rank).right);
    update(rank);
    return rank;
  }
  int& child = before(rank, at) ? node(at).left : node(at).right;
  child = insert(child, rank);
  update(at);
  return at;
}

int LoadOrder::erase(int at, int rank) {
  if (at == rank) return merge(node(at).left, node(at).right);
  int& child = before(rank, at) ? node(at).left : node(at).right;
  child = erase(child, rank);
  update(at);
  return at;
}

int LoadOrder::merge(int left, int right) {
  if (left == kNone) return right;
  if (right == kNone) return left;
  if (node(left).priority > node(right).priority) {
    node(left).right = merge(node(left).right, right);
    update(left);
    return left;
  }
  node(right).left = merge(left, node(right).left);
  update(right);
  return right;
}

/// Cuts the subtree of `at` into the ranks before `rank` and those behind it.
void LoadOrder::split(int at, int rank, int& left, int& right) {
  if (at == kNone) {
    left = right = kNone;
    return;
  }
  if (before(at, rank)) {
    split(node(at).right, rank, node(at).right, right);
    left = at;
  } else {
    split(node(at).left, rank, left, node(at).left);
    right = at;
  }
  update(at);
}

}  // namespace dlrm
