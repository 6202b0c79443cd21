#include "dlrm/embedding/sharded_embeddings.h"

#include <algorithm>

#include "dlrm/core/error.h"
#include "dlrm/plan/id_exchange.h"

#include "pooling/bag_lookup.h"
#include "pooling/bag_pooling.h"
#include "routing/batch_phase.h"
#include "routing/id_checks.h"
#include "routing/router.h"
#include "side_stream.h"
#include "tables/local_tables.h"
#include "update/row_updates.h"

namespace dlrm {
namespace {

bool routes_on_devices(const Context& context, const LocalTables& tables) {
  const EmbeddingOptions& options = tables.options();
  return !context.device.host_visible_memory() && !context.device_comm().blocks_host() &&
         devices_exchange_ids(options.tables, options.routing.mode, options.optimizer,
                              tables.plan());
}

std::unique_ptr<Router> make_router(Context& context, Ops& ops, const LocalTables& tables) {
  const RoutingConfig& routing = tables.options().routing;
  const bool weighted = std::ranges::any_of(tables.options().tables, &TableConfig::weighted);
  if (routing.mode == RoutingMode::kFixed && weighted) {
    throw usage_error("routing.mode fixed does not route weights of ids: needs exact");
  }
  const auto make = tables.layout().local                 ? make_local_router
                    : routes_on_devices(context, tables)  ? make_device_router
                    : routing.mode == RoutingMode::kFixed ? make_fixed_router
                                                          : make_exact_router;
  return make(context, tables.layout(), routing.depth + 1, context.host_threads(ops.threads()),
              tables.placement());
}

std::unique_ptr<BagPooling> make_pooling(Context& context, Ops& ops, const LocalTables& tables) {
  if (tables.layout().local) return make_local_pooling(tables.layout());
  return make_all_to_all_pooling(context, ops, tables.layout(), tables.options().wire);
}

}  // namespace

struct ShardedEmbeddings::Parts {
  Parts(Context& context_of_rank, Ops& main_ops, EmbeddingOptions options, Plan plan)
      : context(context_of_rank),
        ops(main_ops),
        tables(context, ops, std::move(options), std::move(plan)),
        router(make_router(context, ops, tables)),
        pooling(make_pooling(context, ops, tables)),
        bag_lookup(context, tables, *pooling),
        replica_updates(context, ops, tables.options(), tables.replicas()),
        row_updates(context, ops, tables, *pooling, [this] { poll_in_operation(); }),
        de(context.device, 0, "gradients of embedding vectors"),
        side(context, ops) {}

  /// Like poll(), but queues no operations, because operations call it while they run.
  void poll_in_operation() {
    router->poll();
    replica_updates.poll();
    row_updates.poll();
  }
  /// dE of b samples.
  Matrix gradient_of(int64_t b) const {
    if (de_place.data) return de_place.row_range(0, b);
    return MatrixView<float>(de.data(), b, tables.layout().width);
  }
  /// Checks that `place` has room for E or dE of any batch.
  void check_place(const Matrix& place) const {
    const int64_t rows = largest_part(tables.options().max_global_batch, context.comm.size());
    const int64_t width = tables.layout().width;
    DLRM_CHECK(place.rows >= rows && place.cols == width, "a place of {} x {} for {} x {}",
               place.rows, place.cols, rows, width);
  }

  Context& context;
  Ops& ops;
  LocalTables tables;
  std::unique_ptr<Router> router;
  std::unique_ptr<BagPooling> pooling;
  BagLookup bag_lookup;
  ReplicaUpdates replica_updates;
  RowUpdates row_updates;
  Array<float> de;
  Matrix de_place;  // instead of `de`, if it has data
  std::vector<IdCheck> checks;
  BatchPhase phase;
  bool sorted = false;  // the ids of the oldest batch, on the side stream
  SideStream side;      // Declared last, so it is destroyed first.
};

ShardedEmbeddings::ShardedEmbeddings(Context& context, Ops& ops, EmbeddingOptions options,
                                     Plan plan)
    : parts_(std::make_unique<Parts>(context, ops, std::move(options), std::move(plan))) {}
ShardedEmbeddings::~ShardedEmbeddings() = default;

void ShardedEmbeddings::keep_sizes() {
  if (in_flight() > 0) throw run_error("keep_sizes(): {} batches are in flight", in_flight());
  parts_->router->keep_sizes();
}

void ShardedEmbeddings::pool_into(const Matrix& e) {
  parts_->check_place(e);
  parts_->bag_lookup.pool_into(e);
}

void ShardedEmbeddings::read_gradients_from(const Matrix& de) {
  parts_->check_place(de);
  parts_->de_place = de;
}

int64_t ShardedEmbeddings::summed_gradients() const {
  const bool on_device = parts_->context.device.asynchronous();
  return on_device ? parts_->replica_updates.summed_gradients() : 0;
}

void ShardedEmbeddings::sum_gradients_in(View<float> place) {
  parts_->replica_updates.sum_gradients_in(place);
}

void ShardedEmbeddings::pack(const LocalBags& bags, std::shared_ptr<PackedIds>& packed) const {
  parts_->router->pack(bags, packed);
}

void ShardedEmbeddings::route(const LocalBags& bags, PackedIds* packed) {
  const EmbeddingOptions& options = parts_->tables.options();
  if (parts_->router->full()) {
    throw run_error("route(): {} batches are in flight; routing.depth {} allows {}", in_flight(),
                    options.routing.depth, options.routing.depth + 1);
  }
  if (bags.global_size > options.max_global_batch) {
    throw usage_error("a global batch of {} samples; at most {} were announced", bags.global_size,
                      options.max_global_batch);
  }
  const Communicator& comm = parts_->context.comm;
  const Range expected = part_of(bags.global_size, comm.rank(), comm.size());
  if (bags.local != expected) {
    throw usage_error("samples [{}, {}) of a batch of {} are not this rank's, which are [{}, {})",
                      bags.local.begin, bags.local.end, bags.global_size, expected.begin,
                      expected.end);
  }
  parts_->router->route(bags, packed);
}

int ShardedEmbeddings::in_flight() const { return parts_->router->in_flight(); }

void ShardedEmbeddings::await_ids() {
  if (!parts_->phase.is(BatchPhase::kRouted)) return;
  if (in_flight() == 0) throw run_error("await_ids(): no batch was routed");
  parts_->router->await_oldest();
  parts_->router->await_rows();
  parts_->phase.set(BatchPhase::kArrived);
}

void ShardedEmbeddings::prepare_ids(View<float> flag, View<int64_t> where) {
  parts_->phase.advance(BatchPhase::kArrived, BatchPhase::kPrepared, "prepare_ids");
  const RoutedBatch& batch = parts_->router->oldest();
  for (const IdStaging* staging : {&batch.requester.staging(), &batch.owner.staging()}) {
    if (!staging->packed().empty()) parts_->ops.unpack(staging->packed());
  }
  if (!flag.empty() && !parts_->context.device.host_visible_memory()) {
    list_checks(batch, parts_->tables.mine(), parts_->tables.layout(), parts_->tables.placement(),
                parts_->checks);
    parts_->ops.check_ids(parts_->checks, flag, where);
  }
  if (!batch.owner.filters.empty()) parts_->ops.filter_ids(batch.owner.filters);
}

void ShardedEmbeddings::lookup() {
  parts_->phase.advance(BatchPhase::kPrepared, BatchPhase::kLookedUp, "lookup");
  parts_->side.fork();
  parts_->bag_lookup.lookup(parts_->router->oldest(), parts_->side.ops());
}

void ShardedEmbeddings::start_return() {
  parts_->phase.advance(BatchPhase::kLookedUp, BatchPhase::kReturning, "start_return");
  parts_->bag_lookup.start_return(parts_->router->oldest(), parts_->side.ops(),
                                  parts_->side.stream());
}

void ShardedEmbeddings::sort_ids() {
  if (!parts_->side.available()) return;
  parts_->phase.advance(BatchPhase::kReturning, BatchPhase::kSorting, "sort_ids");
  parts_->side.join();  // with the lookups
  parts_->side.stay_forked();
  parts_->replica_updates.sort(parts_->router->oldest(), parts_->side.ops());
  parts_->row_updates.sort(parts_->router->oldest(), parts_->side.ops());
  parts_->sorted = true;
}

Matrix ShardedEmbeddings::finish_return() {
  if (parts_->phase.is(BatchPhase::kSorting)) {
    parts_->phase.set(BatchPhase::kReturned);
  } else {
    parts_->phase.advance(BatchPhase::kReturning, BatchPhase::kReturned, "finish_return");
    parts_->side.join();
  }
  return parts_->bag_lookup.finish_return(parts_->router->oldest());
}

Matrix ShardedEmbeddings::gradient() {
  parts_->phase.require(parts_->phase.is(BatchPhase::kReturned), "gradient");
  const int64_t b = parts_->router->oldest().local.size();
  if (!parts_->de_place.data) parts_->de.reserve(static_cast<size_t>(b * width()));
  return parts_->gradient_of(b);
}

void ShardedEmbeddings::await_sort() { parts_->side.join(); }

void ShardedEmbeddings::start_backward() {
  const Matrix de = gradient();
  const RoutedBatch& batch = parts_->router->oldest();
  const bool sorted = parts_->sorted;
  parts_->pooling->start_backward(batch, de);
  // Without a side stream ids are sorted here, while gradients travel.
  if (!sorted) parts_->replica_updates.sort(batch, parts_->ops);
  await_sort();
  parts_->replica_updates.start(batch, de);
  if (!sorted) parts_->row_updates.sort(batch, parts_->ops);
  parts_->phase.set(BatchPhase::kSent);
}

void ShardedEmbeddings::await_gradients() {
  parts_->phase.advance(BatchPhase::kSent, BatchPhase::kReceived, "await_gradients");
  parts_->pooling->finish_backward(parts_->router->oldest());
}

void ShardedEmbeddings::apply(const OptimizerStep& step, const std::function<void()>& await_sums) {
  if (parts_->phase.is(BatchPhase::kSent)) await_gradients();
  parts_->phase.advance(BatchPhase::kReceived, BatchPhase::kUpdated, "apply");
  const RoutedBatch& batch = parts_->router->oldest();
  const Matrix de = parts_->gradient_of(batch.local.size());
  parts_->row_updates.start_square_sums(batch, de);
  parts_->row_updates.update(step, batch, de);
  if (await_sums) await_sums();
  parts_->replica_updates.finish(step, batch, de);
  parts_->row_updates.finish_square_sums(step, batch);
}

void ShardedEmbeddings::update(double learning_rate, int64_t step) {
  apply(optimizer_step(parts_->tables.options().optimizer, learning_rate, step));
  drop();
}

void ShardedEmbeddings::drop() {
  BatchPhase& phase = parts_->phase;
  const bool travels = phase.is(BatchPhase::kReturning) || phase.is(BatchPhase::kSorting) ||
                       phase.is(BatchPhase::kSent) || phase.is(BatchPhase::kReceived);
  phase.require(in_flight() > 0 && !travels, "drop");
  if (phase.is(BatchPhase::kRouted)) parts_->router->await_oldest();
  parts_->side.join();
  parts_->router->pop(phase.is(BatchPhase::kUpdated));
  phase.set(BatchPhase::kRouted);
  parts_->sorted = false;
}

int64_t ShardedEmbeddings::keep_hot_rows(const std::function<bool()>& route_next) {
  RowPlacement* const placement = parts_->tables.placement();
  const EmbeddingOptions& options = parts_->tables.options();
  if (!placement || options.cached.policy != "static") return 0;
  if (in_flight() > 0) throw run_error("keep_hot_rows(): {} batches are in flight", in_flight());
  placement->begin_counting();
  int64_t batches = 0;
  for (bool more = true; true; ++batches) {
    while (more && in_flight() <= options.routing.depth) more = route_next();
    if (in_flight() == 0) break;
    drop();
  }
  placement->end_counting();
  return batches;
}

void ShardedEmbeddings::poll() {
  parts_->poll_in_operation();
  parts_->pooling->poll();
}

void ShardedEmbeddings::append_key(std::vector<uint64_t>& key) {
  parts_->phase.require(parts_->phase.is(BatchPhase::kArrived), "append_key");
  parts_->router->oldest().append_key(key);
}

int64_t ShardedEmbeddings::width() const { return parts_->tables.layout().width; }
const Plan& ShardedEmbeddings::plan() const { return parts_->tables.plan(); }
std::vector<TensorShard> ShardedEmbeddings::shards() { return parts_->tables.tensor_shards(); }
void ShardedEmbeddings::initialise() { parts_->tables.initialise(); }
void ShardedEmbeddings::check_replicas() { parts_->tables.check_replicas(); }

ShardedEmbeddings::Traffic ShardedEmbeddings::step_traffic() const {
  Traffic sent;
  sent.pooled = parts_->pooling->pooled_bytes();
  sent.gradients = parts_->pooling->gradient_bytes() + parts_->row_updates.bytes_sent();
  sent.replicated = parts_->replica_updates.bytes_sent();
  return sent;
}

ShardedEmbeddings::LookupWork ShardedEmbeddings::lookup_work() const {
  return parts_->bag_lookup.work();
}

std::optional<CacheCounters> ShardedEmbeddings::cache_counters() const {
  RowPlacement* const placement = parts_->tables.placement();
  return placement ? std::optional(placement->counters()) : std::nullopt;
}

ShardedEmbeddings::Traffic ShardedEmbeddings::traffic() const {
  Traffic sent = step_traffic();
  sent.ids = parts_->router->bytes_sent();
  return sent;
}

}  // namespace dlrm
