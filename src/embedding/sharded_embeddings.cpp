#include "dlrm/embedding/sharded_embeddings.h"

#include <functional>
#include <optional>

#include "dlrm/core/error.h"

#include "checkpoint_arrays.h"
#include "id_checks.h"
#include "layout.h"
#include "owned_shards.h"
#include "pooled_path.h"
#include "replica_check.h"
#include "replicated.h"
#include "router.h"
#include "segment_buffers.h"
#include "side_stream.h"
#include "square_sums.h"

namespace dlrm {
namespace {

Plan checked(Plan plan, const EmbeddingOptions& options, const Communicator& comm) {
  ModelConfig model;
  model.tables = options.tables;
  if (plan.world != comm.size()) {
    throw usage_error("the sharding plan is for {} ranks, but {} run", plan.world, comm.size());
  }
  for (const TableConfig& table : options.tables) {
    DLRM_CHECK(table.dtype != DType::kFloat16, "table {} in fp16", table.name);
  }
  check_plan(plan, model, "sharding plan");
  return plan;
}

}  // namespace

class ShardedEmbeddings::Impl {
 public:
  Impl(Context& context, Ops& ops, EmbeddingOptions options, Plan plan)
      : context_(context),
        ops_(ops),
        options_(std::move(options)),
        plan_(checked(std::move(plan), options_, context.comm)),
        layout_(options_.tables, plan_, options_.routing.mode),
        mine_(layout_.owner(context.comm.rank())),
        shards_(make_owned_shards(context, options_, layout_)),
        replicated_(context, ops, options_, layout_),
        router_(make_router()),
        path_(direct_path_serves(layout_)
                  ? make_direct_path(layout_)
                  : make_exchanged_path(context, ops, layout_, options_.wire)),
        runs_(context.device),
        initial_row_(context.device, 0, "initial optimizer state"),
        e_(context.device, 0, "embedding vectors"),
        de_(context.device, 0, "gradients of embedding vectors"),
        side_stream_(context, ops) {
    if (traits_of(options_.optimizer.type).rowwise() && columns_are_cut(layout_)) {
      square_sums_.emplace(context, ops, layout_, shards_);
    }
    if (options_.initialise) initialise();
  }

  void route(const LocalBags& bags) {
    if (router_->full()) {
      throw run_error("route(): {} batches are in flight; routing.depth {} allows {}", slots(),
                      options_.routing.depth, slots());
    }
    if (bags.global_size > options_.max_global_batch) {
      throw usage_error("a global batch of {} samples; at most {} were announced", bags.global_size,
                        options_.max_global_batch);
    }
    const Range expected = part_of(bags.global_size, context_.comm.rank(), context_.comm.size());
    if (bags.local != expected) {
      throw usage_error("samples [{}, {}) of a batch of {} are not this rank's, which are [{}, {})",
                        bags.local.begin, bags.local.end, bags.global_size, expected.begin,
                        expected.end);
    }
    router_->route(bags);
  }

  int in_flight() const { return router_->in_flight(); }

  void await_ids() {
    if (phase_ != Phase::kRouted) return;
    if (router_->in_flight() == 0) throw run_error("await_ids(): no batch was routed");
    batch_ = &router_->await_oldest();
    for (OwnedShard& shard : shards_) shard.store->prepare(*batch_);
    phase_ = Phase::kArrived;
  }

  void prepare_ids(View<float> flag, View<int64_t> where) {
    expect(Phase::kArrived, "prepare_ids");
    for (const IdStaging* staging : {&batch_->requester.staging(), &batch_->owner.staging()}) {
      if (!staging->packed().empty()) ops_.unpack(staging->packed());
    }
    if (!flag.empty() && !context_.device.host_visible_memory()) {
      list_checks(*batch_, mine_, layout_, checks_);
      ops_.check_ids(checks_, flag, where);
    }
    if (!batch_->owner.filters.empty()) ops_.filter_ids(batch_->owner.filters);
    phase_ = Phase::kPrepared;
  }

  void lookup() {
    expect(Phase::kPrepared, "lookup");
    const auto b = static_cast<size_t>(batch_->local.size());
    e_.reserve(b * static_cast<size_t>(layout_.width));
    lookups_.clear();
    path_->begin(*batch_);
    for (const OwnedShard& shard : shards_) {
      add_lookups(shard, mine_, *batch_, *path_, matrix(e_), lookups_);
    }
    replicated_.add_lookups(layout_, *batch_, matrix(e_), lookups_);
    if (side_stream_.available()) side_stream_.fork();
    side_ops().embedding_bag_forward(lookups_);
    phase_ = Phase::kLookedUp;
  }

  void start_return() {
    expect(Phase::kLookedUp, "start_return");
    path_->start_return(*batch_, side_ops(),
                        side_stream_.available() ? side_stream_.stream() : context_.stream);
    phase_ = Phase::kReturning;
  }

  MatrixView<const float> finish_return() {
    expect(Phase::kReturning, "finish_return");
    side_stream_.join();
    path_->finish_return(*batch_, matrix(e_));
    phase_ = Phase::kReturned;
    return matrix(e_);
  }

  MatrixView<float> gradient() {
    expect(Phase::kReturned, "gradient");
    de_.reserve(static_cast<size_t>(batch_->local.size() * layout_.width));
    return matrix(de_);
  }

  void sort_ids() {
    expect(Phase::kReturned, "sort_ids");
    if (!side_stream_.available() || sorted_) return;
    side_stream_.fork();
    replicated_.group(*batch_, side_stream_.ops());
    group_rows(side_stream_.ops());
    sorted_ = true;
  }

  void start_backward() {
    expect(Phase::kReturned, "start_backward");
    path_->start_backward(*batch_, gradient());
    if (!sorted_) replicated_.group(*batch_, ops_);
    if (replicated_.exchange()) side_stream_.join();
    replicated_.start(*batch_, matrix(de_));
    if (!sorted_) group_rows(ops_);
    phase_ = Phase::kSent;
  }

  void append_key(std::vector<uint64_t>& key) {
    expect(Phase::kArrived, "append_key");
    batch_->append_key(key);
  }

  void apply(const OptimizerStep& now) {
    expect(Phase::kSent, "apply");
    side_stream_.join();
    path_->finish_backward(*batch_);
    if (square_sums_) sum_squares();
    update_shards(now);
    replicated_.finish(now, *batch_, matrix(de_));
    if (square_sums_) update_cut_shards(now);
    phase_ = Phase::kUpdated;
  }

  void update(double learning_rate, int64_t step) {
    apply(optimizer_step(options_.optimizer, learning_rate, step));
    drop();
  }

  void drop() {
    if (phase_ == Phase::kReturning || phase_ == Phase::kSent) expect(Phase::kUpdated, "drop");
    await_ids();
    for (OwnedShard& shard : shards_) shard.store->release(batches_done_);
    ++batches_done_;
    side_stream_.join();
    sorted_ = false;
    router_->pop();
    phase_ = Phase::kRouted;
  }

  void poll() {
    router_->poll();
    path_->poll();
    replicated_.poll();
    if (square_sums_) square_sums_->poll();
  }

  int64_t width() const { return layout_.width; }
  const Plan& plan() const { return plan_; }

  std::vector<ShardArray> arrays() {
    return checkpoint_arrays(options_, context_.comm, shards_, replicated_.tables());
  }

  void initialise() {
    for (const OwnedShard& shard : shards_) {
      initialise_rows(context_, ops_, shard.store->table(), options_.optimizer, options_.seed,
                      table(shard.table), shard.rows.begin, shard.columns.begin, initial_row_);
    }
    for (const ReplicatedTable& replica : replicated_.tables()) {
      initialise_rows(context_, ops_, replica.store->table(), options_.optimizer, options_.seed,
                      table(replica.table), 0, 0, initial_row_);
    }
  }

  void check_replicas() {
    for (const ReplicatedTable& replica : replicated_.tables()) {
      check_replica(context_, table(replica.table).name, replica.store->table());
    }
  }

  Traffic step_traffic() const {
    Traffic sent;
    sent.pooled = path_->pooled_bytes();
    sent.gradients = path_->gradient_bytes() + (square_sums_ ? square_sums_->bytes_sent() : 0);
    sent.replicated = replicated_.bytes_sent();
    return sent;
  }
  Traffic traffic() const {
    Traffic sent = step_traffic();
    sent.ids = router_->bytes_sent();
    return sent;
  }

 private:
  /// How far the oldest batch is.
  enum class Phase : uint8_t {
    kRouted,
    kArrived,
    kPrepared,
    kLookedUp,
    kReturning,
    kReturned,
    kSent,
    kUpdated
  };

  int slots() const { return options_.routing.depth + 1; }
  /// What looks rows up, beside the bottom MLP if it can be.
  Ops& side_ops() { return side_stream_.available() ? side_stream_.ops() : ops_; }
  std::unique_ptr<Router> make_router() {
    const auto make = direct_path_serves(layout_)                    ? make_local_router
                      : options_.routing.mode == RoutingMode::kFixed ? make_fixed_router
                                                                     : make_exact_router;
    const int threads = context_.threads > 0 ? context_.threads : ops_.threads();
    return make(context_, layout_, slots(), threads);
  }
  const TableConfig& table(int t) const { return options_.tables[static_cast<size_t>(t)]; }
  MatrixView<float> matrix(const Array<float>& array) const {
    return {array.data(), batch_->local.size(), layout_.width};
  }

  void expect(Phase phase, const char* call) const {
    if (phase_ == phase) return;
    throw run_error(
        "{}() out of turn: a batch is routed, its ids are awaited and prepared, its rows looked up "
        "and returned; then it is dropped, or its gradients are sent back and its rows updated",
        call);
  }

  /// Needs ids alone: done while gradients are on their way, and for training batches only.
  void group_rows(Ops& ops) {
    capacities_.clear();
    for (const Slice& slice : mine_.slices) capacities_.push_back(ids_in(groups_of(slice)));
    runs_.make_room(capacities_);
    updates_.clear();
    for (const OwnedShard& shard : shards_) {  // column shards of a slice share its runs
      if (static_cast<size_t>(shard.slice) != updates_.size()) continue;
      updates_.push_back(update_of(shard));
    }
    ops.group_rows_of(updates_, progress_);
  }
  ShardUpdate update_of(const OwnedShard& shard) const {
    const auto slice = static_cast<size_t>(shard.slice);
    return {shard.store->table(), groups_of(mine_.slices[slice]), {}, runs_[slice]};
  }
  View<const IdGroup> groups_of(const Slice& slice) const {
    const size_t pieces = batch_->owner.pieces_per_group;
    return {batch_->owner.pieces.data() + static_cast<size_t>(slice.first_group) * pieces,
            static_cast<size_t>(layout_.features_of(slice.table)) * pieces};
  }

  void update_shards(const OptimizerStep& step) {
    updates_.clear();
    gradients_.clear();
    for (const OwnedShard& shard : shards_) {
      if (square_sums_ && shard.columns_cut) continue;
      list_gradients(shard, *batch_, *path_, matrix(de_), gradients_);
      updates_.push_back(update_of(shard));
    }
    const BagGradient* next = gradients_.data();
    for (ShardUpdate& update : updates_) {
      update.gradients = {next, update.groups.size()};
      next += update.groups.size();
    }
    ops_.embedding_bag_updates(step, updates_, progress_);
  }

  void sum_squares() {
    square_sums_->begin(runs_);
    for (size_t s = 0; s < shards_.size(); ++s) {
      if (!shards_[s].columns_cut) continue;
      gradients_.clear();
      list_gradients(shards_[s], *batch_, *path_, matrix(de_), gradients_);
      ops_.embedding_bag_backward(runs_[static_cast<size_t>(shards_[s].slice)], gradients_,
                                  square_sums_->gradients(s));
    }
    square_sums_->start(runs_);
  }

  void update_cut_shards(const OptimizerStep& step) {
    square_sums_->finish();
    for (size_t s = 0; s < shards_.size(); ++s) {
      const OwnedShard& shard = shards_[s];
      if (!shard.columns_cut) continue;
      const SegmentedRows& runs = runs_[static_cast<size_t>(shard.slice)];
      ops_.sparse_update(step, shard.store->table(), runs.rows, runs.count,
                         square_sums_->gradients(s), /*by_row=*/false, square_sums_->totals(s),
                         table(shard.table).dim);
    }
  }

  Context& context_;
  Ops& ops_;
  const EmbeddingOptions options_;
  const Plan plan_;
  const EmbeddingLayout layout_;
  const OwnerLayout& mine_;
  std::vector<OwnedShard> shards_;
  ReplicatedTables replicated_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<PooledPath> path_;
  std::optional<SquareSums> square_sums_;
  SegmentBuffers runs_;  ///< by slice
  Array<float> initial_row_, e_, de_;
  std::vector<BagGroup> lookups_;
  std::vector<BagGradient> gradients_;
  std::vector<ShardUpdate> updates_;
  std::vector<IdCheck> checks_;
  const std::function<void()> progress_ = [this] { poll(); };
  std::vector<int64_t> capacities_;
  RoutedBatch* batch_ = nullptr;
  Phase phase_ = Phase::kRouted;
  int64_t batches_done_ = 0;
  bool sorted_ = false;     // ahead of start_backward()
  SideStream side_stream_;  // after what its operations use: ends first
};

ShardedEmbeddings::ShardedEmbeddings(Context& context, Ops& ops, EmbeddingOptions options,
                                     Plan plan)
    : impl_(std::make_unique<Impl>(context, ops, std::move(options), std::move(plan))) {}
ShardedEmbeddings::~ShardedEmbeddings() = default;

void ShardedEmbeddings::route(const LocalBags& bags) { impl_->route(bags); }
int ShardedEmbeddings::in_flight() const { return impl_->in_flight(); }
void ShardedEmbeddings::lookup() { impl_->lookup(); }
void ShardedEmbeddings::start_return() { impl_->start_return(); }
MatrixView<const float> ShardedEmbeddings::finish_return() { return impl_->finish_return(); }
MatrixView<float> ShardedEmbeddings::gradient() { return impl_->gradient(); }
void ShardedEmbeddings::sort_ids() { impl_->sort_ids(); }
void ShardedEmbeddings::start_backward() { impl_->start_backward(); }
void ShardedEmbeddings::await_ids() { impl_->await_ids(); }
void ShardedEmbeddings::prepare_ids(View<float> flag, View<int64_t> where) {
  impl_->prepare_ids(flag, where);
}
void ShardedEmbeddings::append_key(std::vector<uint64_t>& key) { impl_->append_key(key); }
void ShardedEmbeddings::apply(const OptimizerStep& step) { impl_->apply(step); }
void ShardedEmbeddings::update(double learning_rate, int64_t step) {
  impl_->update(learning_rate, step);
}
void ShardedEmbeddings::drop() { impl_->drop(); }
void ShardedEmbeddings::poll() { impl_->poll(); }
int64_t ShardedEmbeddings::width() const { return impl_->width(); }
const Plan& ShardedEmbeddings::plan() const { return impl_->plan(); }
std::vector<ShardArray> ShardedEmbeddings::arrays() { return impl_->arrays(); }
void ShardedEmbeddings::initialise() { impl_->initialise(); }
void ShardedEmbeddings::check_replicas() { impl_->check_replicas(); }
ShardedEmbeddings::Traffic ShardedEmbeddings::step_traffic() const { return impl_->step_traffic(); }
ShardedEmbeddings::Traffic ShardedEmbeddings::traffic() const { return impl_->traffic(); }

}  // namespace dlrm
