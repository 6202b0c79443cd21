#include "tables.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {
namespace {

void check_alike(Communicator& comm, const std::string& mine) {
  const std::string first = broadcast_text(comm, mine);
  agree(comm, [&] {
    if (mine == first) return;
    throw usage_error("{} has other tables or options than rank 0", rank_and_host(comm));
  });
}

EmbeddingOptions options_for(const RunConfig& config, int64_t most_samples) {
  EmbeddingOptions options = embedding_options(config);
  options.routing.depth = 0;  // forward() routes one batch, and waits for it
  options.max_global_batch = most_samples;
  return options;
}

TensorShard piece_of(const NamedTensor& tensor, bool saves) {
  TensorShard piece;
  piece.path = tensor.path;
  piece.shape = tensor.shape;
  piece.rows = {0, tensor.shape[0]};
  piece.columns = {0, tensor.shape.size() > 1 ? tensor.shape[1] : 1};
  piece.saves = saves;
  float* const data = tensor.data;
  const int64_t columns = piece.columns.size();
  piece.read = [=](int64_t first, int64_t count, float* out) {
    std::copy_n(data + first * columns, count * columns, out);
  };
  piece.write = [=](int64_t first, int64_t count, const float* in) {
    std::copy_n(in, count * columns, data + first * columns);
  };
  return piece;
}

}  // namespace

Tables::Tables(std::shared_ptr<Session> session, RunConfig config)
    : session_(std::move(session)),
      config_(std::move(config)),
      most_samples_(largest_part(config_.train.global_batch_size, session_->size()) *
                    session_->size()) {
  Communicator& comm = session_->comm();
  check_alike(comm, to_yaml(config_));
  tables_ = std::make_unique<ShardedEmbeddings>(session_->context(), session_->ops(),
                                                options_for(config_, most_samples_),
                                                make_plan(config_, session_->size()));
  state_.seed = config_.train.seed;
  state_.config = to_yaml(config_);
  state_.plan = plan();
  // The largest batch allocates the pooled vectors, which do not move afterwards.
  forward({}, offsets_of_empty_bags(most_samples_ / session_->size()));
  drop();
}

/// Returns this rank's samples of the global batch to which it adds `mine`.
Range Tables::my_part(int64_t mine, int64_t& global_size) const {
  Communicator& comm = session_->comm();
  const std::vector<int64_t> sizes = comm.allgather(mine);
  global_size = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (global_size > most_samples_) {
    throw usage_error("a global batch of {} samples; batch_size allows {}", global_size,
                      most_samples_);
  }
  for (int q = 0; q < comm.size(); ++q) {
    const int64_t expected = part_of(global_size, q, comm.size()).size();
    const int64_t given = sizes[static_cast<size_t>(q)];
    if (given == expected) continue;
    throw usage_error("rank {} has {} samples; its part of a global batch of {} is {}", q, given,
                      global_size, expected);
  }
  return part_of(global_size, comm.rank(), comm.size());
}

const std::vector<int64_t>& Tables::offsets_of_empty_bags(int64_t samples) {
  zeros_.assign(static_cast<size_t>(config_.model.num_features() * samples + 1), 0);
  return zeros_;
}

/// A rank whose bags are bad sends empty ones, so that the others get what they wait for.
void Tables::route(const LocalBags& bags) {
  try {
    agree(session_->comm(), [&] {
      try {
        tables_->route(bags);
      } catch (const Error&) {
        const auto& offsets = offsets_of_empty_bags(bags.local.size());
        tables_->route({bags.local, bags.global_size, {}, offsets});
        throw;
      }
    });
  } catch (const Error&) {
    tables_->drop();
    throw;
  }
}

MatrixView<const float> Tables::forward(View<const int64_t> ids, View<const int64_t> offsets,
                                        View<const float> weights) {
  drop();
  const int64_t bags = std::max<int64_t>(0, static_cast<int64_t>(offsets.size()) - 1);
  const int64_t mine = bags / config_.model.num_features();
  int64_t global_size = 0;
  const Range part = my_part(mine, global_size);
  route({part, global_size, ids, offsets, 0, weights});
  global_size_ = global_size;
  share_ = global_size > 0 ? static_cast<double>(mine) / static_cast<double>(global_size) : 0;
  tables_->await_ids();
  tables_->prepare_ids();
  tables_->lookup();
  tables_->start_return();
  return tables_->finish_return().f32();
}

void Tables::update(double learning_rate) {
  tables_->backward(learning_rate, state_.step);
  ++state_.step;
  state_.samples += global_size_;
}

void Tables::drop() {
  if (tables_->in_flight() > 0) tables_->drop();
}

std::vector<std::string> Tables::features() const {
  std::vector<std::string> names;
  for (const TableConfig& table : config_.model.tables) {
    for (const FeatureConfig& feature : table.features) names.push_back(feature.name);
  }
  return names;
}

void Tables::save(const std::string& directory, const std::vector<NamedTensor>& tensors, int keep) {
  std::vector<TensorShard> pieces = tables_->shards();
  for (const NamedTensor& tensor : tensors) {
    pieces.push_back(piece_of(tensor, session_->rank() == 0));
  }
  check_checkpoint_folder(session_->comm(), directory);
  save_checkpoint(session_->comm(), session_->log(), directory, keep, state_, pieces);
}

void Tables::load(const std::string& directory, const std::vector<NamedTensor>& tensors,
                  bool weights_only) {
  drop();
  const auto found = find_checkpoint(session_->comm(), directory);
  if (!found) throw usage_error("{}: no checkpoint (step_*) there", directory);
  const CheckpointState saved = open_checkpoint(session_->comm(), *found, true);
  std::vector<TensorShard> own;
  for (const NamedTensor& tensor : tensors) own.push_back(piece_of(tensor, false));
  load_pieces(session_->comm(), *found, own, false);
  load_pieces(session_->comm(), *found, tables_->shards(), weights_only);
  if (weights_only) return;
  state_.step = saved.step;
  state_.samples = saved.samples;
}

}  // namespace dlrm
