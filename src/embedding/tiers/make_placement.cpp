#include "make_placement.h"

#include <omp.h>

#include "dlrm/core/shown_bytes.h"
#include "dlrm/plan/cache_size.h"

#include "embedding/tables/layout.h"

namespace dlrm {
namespace {

std::vector<RowShape> shapes_of(const Slice& slice, const EmbeddingOptions& options) {
  const TableConfig& table = options.tables[static_cast<size_t>(slice.table)];
  std::vector<RowShape> shapes;
  for (const Range& columns : slice.columns) {
    shapes.emplace_back(table, options.optimizer, options.seed, slice.rows, columns);
  }
  return shapes;
}

}  // namespace

std::unique_ptr<RowPlacement> make_placement(RowTools& tools, const EmbeddingOptions& options,
                                             const Plan& plan, const EmbeddingLayout& layout) {
  if (!layout.caches_rows()) return nullptr;
  const int rank = tools.context.comm.rank();
  const std::vector<CachedRows> cached = cached_rows(
      options.tables, options.optimizer.type, options.cached, options.max_global_batch, plan, rank);
  const CacheSizes sizes = cache_sizes(options.cached, cached);
  std::vector<size_t> moving;
  for (size_t i = 0; i < cached.size(); ++i) {
    if (!sizes.whole[i]) moving.push_back(i);
  }
  const Context& context = tools.context;
  const bool on_gpu = !context.device.host_visible_memory();
  // With a GPU the host's cores are free. Otherwise they are busy with a step.
  const int threads = on_gpu ? omp_get_max_threads() : 1;
  auto placement = std::make_unique<RowPlacement>(
      options.cached.policy == "lookahead",
      on_gpu ? std::make_unique<RecordStream>(context.device, context.stream, threads) : nullptr);
  for (const Slice& slice : layout.owner(rank).slices) {
    if (slice.cache < 0) continue;
    const size_t number = moving[static_cast<size_t>(slice.cache)];
    const auto make_store = [&](const SlotRecords& layout) {
      const int64_t rows = slice.rows.size(), record_bytes = layout.bytes();
      if (options.cached.backing == "host") {
        return on_gpu ? make_pinned_records(context.device, layout, rows, threads)
                      : make_memory_records(rows, record_bytes, threads);
      }
      SsdRecordsOptions ssd;
      ssd.directory = options.cached.directory;
      ssd.name = options.tables[static_cast<size_t>(slice.table)].name;
      ssd.sort_bytes = sort_bytes(rows, record_bytes);
      auto store = make_ssd_records(rows, record_bytes, ssd);
      if (sizes.middle[number] == 0) return store;
      return make_middle_records(rows, record_bytes, sizes.middle[number], std::move(store));
    };
    auto cache = std::make_unique<RowCache>(
        tools, placement->stream(), shapes_of(slice, options), sizes.slots[number],
        options.cached.policy == "lru16" ? make_lru16() : make_clock(), make_store);
    if (slice.ordered) cache->map().list_slots();
    placement->add(std::move(cache), [cached, number](int64_t needed) {
      return bytes_for_slots(cached, number, needed);
    });
  }
  if (moving.empty()) return placement;
  size_t bytes = 0;
  for (const size_t i : moving) bytes += static_cast<size_t>(sizes.slots[i] * cached[i].slot_bytes);
  context.log.info("{} of {}memory cache the rows of {} table part{}, which are in {}",
                   shown_bytes(bytes), on_gpu ? "GPU " : "", moving.size(),
                   moving.size() == 1 ? "" : "s", placement->cache(0).store().description());
  return placement;
}

}  // namespace dlrm
