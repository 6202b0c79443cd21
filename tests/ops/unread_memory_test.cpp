// Kernels that find their operands in lists read and write nothing else, and no row that no id
// names: each operand lies between pages that cannot be accessed. The emulator's kernels can read
// the host's memory.
#if defined(DLRM_SIMT)
#include <array>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "bags.h"
#include "device/gpu_fixture.h"

namespace dlrm {
namespace {

/// Memory that begins behind a page without access, or ends before one.
class Walled {
 public:
  explicit Walled(bool at_end) : at_end_(at_end) {}
  Walled(const Walled&) = delete;
  Walled& operator=(const Walled&) = delete;
  ~Walled() {
    for (const auto& [data, bytes] : all_) ::munmap(data, bytes);
  }

  void* bytes(const void* from, size_t count) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t inner = (count + page - 1) / page * page;
    void* all = ::mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_.emplace_back(all, inner + 2 * page);
    char* begin = static_cast<char*>(all) + page;
    if (inner > 0 && ::mprotect(begin, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    if (at_end_) begin += inner - count;
    if (count > 0) std::memcpy(begin, from, count);
    return begin;
  }
  template <class T>
  T* of(const std::vector<T>& values) {
    return static_cast<T*>(bytes(values.data(), values.size() * sizeof(T)));
  }

 private:
  bool at_end_;
  std::vector<std::pair<void*, size_t>> all_;
};

constexpr int64_t kHidden = 50, kTableRows = 20;  ///< rows that no id names, and those behind them
constexpr int64_t kSpare = 5;                     ///< ids before those of the first bag

struct Layout {
  int64_t width;
  DType type;
  bool at_end;
  std::string text() const {
    return fmt::format("width {} {}{}", width, name_of(type), at_end ? " at the end" : "");
  }
};

class UnreadMemory : public OnGpu {
 protected:
  static std::vector<float> numbers(int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> values(0.25f, 2);
    std::vector<float> all(static_cast<size_t>(count));
    for (float& value : all) value = values(generator);
    return all;
  }
  template <class Body>
  void in_every_case(const std::vector<int64_t>& widths, const Body& body) {
    for (const int64_t width : widths) {
      for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
        for (const bool at_end : {false, true}) {
          const Layout c{width, type, at_end};
          SCOPED_TRACE(c.text());
          body(c);
        }
      }
    }
  }
  /// Elements of `type` behind or before a wall.
  static void* elements(Walled& memory, DType type, const std::vector<float>& values) {
    if (type == DType::kFloat32) return memory.of(values);
    std::vector<BFloat16> rounded;
    for (const float value : values) rounded.emplace_back(value);
    return memory.of(rounded);
  }
  /// Bags of a table whose rows from kHidden on exist. The first row named is the hottest one.
  struct Ids {
    std::vector<int64_t> ids, offsets{kSpare};
    std::vector<float> scale;
    explicit Ids(std::vector<int64_t> lengths) {
      for (const int64_t length : lengths) {
        for (int64_t i = 0; i < length; ++i) {
          const auto n = static_cast<int64_t>(ids.size());
          ids.push_back(kHidden + (n % 2 == 0 ? 0 : n * 7 % kTableRows));
        }
        offsets.push_back(kSpare + static_cast<int64_t>(ids.size()));
        scale.push_back(1.0f / static_cast<float>(scale.size() + 2));
      }
    }
    int64_t bags() const { return static_cast<int64_t>(scale.size()); }
    int64_t count() const { return static_cast<int64_t>(ids.size()); }
  };
  static RowTable table(Walled& memory, const Layout& c, OptimizerRule rule = OptimizerRule::kSgd) {
    RowTable t;
    t.type = c.type, t.rows = kHidden + kTableRows, t.width = t.stride = c.width;
    const auto size = static_cast<int64_t>(size_of(c.type));
    t.weights = static_cast<char*>(elements(memory, c.type, numbers(kTableRows * c.width, 1))) -
                kHidden * c.width * size;
    const int states = traits_of(rule).state_count();
    const int64_t width = traits_of(rule).rowwise() ? 1 : c.width;
    t.state_stride = width;
    if (states > 0) t.state1 = memory.of(numbers(kTableRows * width, 2)) - kHidden * width;
    if (states > 1) t.state2 = memory.of(numbers(kTableRows * width, 3)) - kHidden * width;
    return t;
  }
  static Cells cells(const void* data, DType type, int64_t rows, int64_t cols) {
    Cells all(rows, cols, type, 0);
    std::memcpy(all.matrix().data, data, static_cast<size_t>(rows * cols) * size_of(type));
    return all;
  }
  static Cells rows_of(const RowTable& t) {
    const auto size = static_cast<int64_t>(size_of(t.type));
    return cells(static_cast<const char*>(t.weights) + kHidden * t.stride * size, t.type,
                 kTableRows, t.width);
  }

  std::unique_ptr<Ops> ops = device ? make_cuda_ops(*device, *stream, CudaOpsOptions()) : nullptr;
  Machine host;
  std::unique_ptr<Ops> reference = host.reference();
};

TEST_F(UnreadMemory, IsAllButTheRowsThatAreLookedUp) {
  const Ids ids({0, 1, 2, 0, 0, 3, 4, 5, 33, 64, 31, 0});
  in_every_case({1, 3, 4, 8, 12, 16, 33, 64, 128, 132, 256}, [&](const Layout& c) {
    for (const DType pooled : {DType::kFloat32, DType::kBFloat16}) {
      Walled memory(c.at_end);
      BagGroup group;
      group.table = table(memory, c);
      group.ids = memory.of(ids.ids) - kSpare, group.offsets = memory.of(ids.offsets);
      group.bags = ids.bags(), group.capacity = ids.count(), group.scale = memory.of(ids.scale);
      const std::vector<float> nothing = numbers(group.bags * c.width, 5);
      void* results[2];
      for (void*& result : results) {
        result = elements(memory, pooled, nothing);
        group.pooled = Matrix(result, pooled, group.bags, c.width);
        (&result == results ? ops : reference)->embedding_bag_forward({&group, 1});
        stream->synchronize();
      }
      EXPECT_TRUE(close(cells(results[0], pooled, group.bags, c.width),
                        cells(results[1], pooled, group.bags, c.width), 50));
      // A shard without rows, whose bags are empty.
      const Ids none({0, 0, 0});
      group.table.weights = memory.of(std::vector<float>()), group.table.rows = 0;
      group.ids = memory.of(std::vector<int64_t>()) - kSpare;
      group.offsets = memory.of(none.offsets), group.bags = 3, group.capacity = 0;
      group.pooled = Matrix(elements(memory, pooled, numbers(3 * c.width, 5)), pooled, 3, c.width);
      ops->embedding_bag_forward({&group, 1});
      stream->synchronize();
      EXPECT_TRUE(close(cells(group.pooled.data, pooled, 3, c.width), [&] {
        Cells zeros(3, c.width, pooled, 0);
        for (int64_t i = 0; i < 3 * c.width; ++i) zeros.set(i / c.width, i % c.width, 0);
        return zeros;
      }()));
    }
  });
}

TEST_F(UnreadMemory, IsAllButTheRowsThatAreUpdated) {
  const Ids all[] = {Ids({0, 1, 2, 0, 3, 4, 5, 33, 64, 0}), Ids({1, 0, 70}), Ids({1})};
  in_every_case({1, 4, 33, 132}, [&](const Layout& c) {
    for (const OptimizerStep& step : every_rule(kSparse)) {
      if (step.rule == OptimizerRule::kFtrl) continue;  // reads what Adam reads
      for (const size_t features : {1, 2}) {
        // Each execution has tables and results of its own.
        std::array<Cells, 2> weights{Cells(0, 0), Cells(0, 0)}, sums = weights, applied = weights;
        for (const bool on_gpu : {false, true}) {
          Ops& run = on_gpu ? *ops : *reference;
          Walled memory(c.at_end);
          std::vector<IdGroup> groups;
          std::vector<BagGradient> gradients;
          int64_t count = 0;
          for (size_t f = 0; f < features; ++f) {
            const Ids& ids = all[features == 1 ? 2 : f];
            groups.push_back(
                {memory.of(ids.ids) - kSpare, memory.of(ids.offsets), ids.bags(), ids.count()});
            gradients.push_back({Matrix(elements(memory, c.type, numbers(ids.bags() * c.width, 7)),
                                        c.type, ids.bags(), c.width),
                                 f == 0 ? memory.of(ids.scale) : nullptr});
            count += ids.count();
          }
          const auto size = static_cast<size_t>(count);
          const SegmentedRows runs{{memory.of(std::vector<int64_t>(size)), size},
                                   {memory.of(std::vector<int64_t>(size + 1)), size + 1},
                                   {memory.of(std::vector<Occurrence>(size)), size},
                                   {memory.of(std::vector<int64_t>(1)), 1}};
          const UpdatedShard shard{table(memory, c, step.rule), groups, gradients, runs};
          run.group_rows_of({&shard, 1}, [] {});
          run.embedding_bag_updates(step, {&shard, 1}, [] {});
          stream->synchronize();
          weights[on_gpu] = rows_of(shard.table);
          const int64_t unique = runs.count[0];
          float* grads = memory.of(numbers(unique * c.width, 8));
          run.embedding_bag_backward(runs, gradients, {grads, unique, c.width});
          stream->synchronize();
          sums[on_gpu] = cells(grads, DType::kFloat32, unique, c.width);
          const RowTable other = table(memory, c, step.rule);
          const auto room = static_cast<size_t>(unique);
          const View<const int64_t> rows(
              memory.of(std::vector<int64_t>(runs.rows.data(), runs.rows.data() + unique)), room);
          run.sparse_update(step, other, rows, runs.count, {grads, unique, c.width}, {}, c.width);
          stream->synchronize();
          applied[on_gpu] = rows_of(other);
        }
        EXPECT_TRUE(close(weights[1], weights[0], 30)) << traits_of(step.rule).name;
        EXPECT_TRUE(close(sums[1], sums[0], 300)) << traits_of(step.rule).name;
        EXPECT_TRUE(close(applied[1], applied[0], 30)) << traits_of(step.rule).name;
      }
    }
  });
}

TEST_F(UnreadMemory, IsAllButTheRowsThatAreCopied) {
  in_every_case({1, 3, 4, 8, 33, 64, 132}, [&](const Layout& c) {
    for (const bool chained : {false, true}) {
      std::array<Cells, 2> results{Cells(0, 0), Cells(0, 0)};
      for (const bool on_gpu : {false, true}) {
        Walled memory(c.at_end);
        // Rows 0, 3, 6, ... and -1 at the end. A source ends with the last row that is listed.
        std::vector<int32_t> rows;
        for (int32_t r = 0; r < 13; ++r) rows.push_back(r < 9 ? 3 * r : -1);
        std::vector<BlockCopy> list(3);
        void* to = elements(memory, c.type, numbers(25 * c.width, 1));
        for (size_t i = 0; i < 3; ++i) {
          BlockCopy& b = list[i];
          b.src_type = b.dst_type = c.type, b.cols = b.src_stride = b.dst_stride = c.width;
          b.dst = to, b.rows = i == 0 ? 25 : 13;
          const int64_t from = i == 0 || !chained ? 25 : 9;
          b.src = elements(memory, c.type, numbers(from * c.width, static_cast<unsigned>(i) + 2));
          if (i == 0) continue;
          b.accumulate = true;
          b.scale = memory.of(numbers(chained || i == 1 ? 9 : 13, 5));
          if (chained || i == 1) b.dst_rows = memory.of(rows);
          if (chained) b.dst_height = 25;
          if (!chained && i == 2) b.src_rows = memory.of(rows), b.scale = memory.of(numbers(9, 6));
        }
        (on_gpu ? ops : reference)->copy_blocks(list);
        stream->synchronize();
        results[on_gpu] = cells(to, c.type, 25, c.width);
      }
      EXPECT_TRUE(close(results[1], results[0], 10)) << chained;
    }
  });
}

TEST_F(UnreadMemory, IsAllButTheIdsOfBags) {
  for (const bool at_end : {false, true}) {
    for (const int64_t bags : {1, 31, 32, 33, 256, 257}) {
      Walled memory(at_end);
      std::vector<int32_t> lengths, narrow;
      for (int64_t b = 0; b < bags; ++b) {
        lengths.push_back(static_cast<int32_t>(b % 4));
        for (int32_t i = 0; i < lengths.back(); ++i) narrow.push_back(static_cast<int32_t>(b % 9));
      }
      const std::vector<int64_t> wide(narrow.begin(), narrow.end());
      const auto count = static_cast<int64_t>(wide.size());
      IdCheck check;
      check.ids = memory.of(narrow), check.narrow = true, check.lengths = memory.of(lengths);
      check.bags = bags, check.capacity = count, check.rows = 8;
      const auto flag = upload(std::vector<float>{0});
      const auto where = upload(std::vector<int64_t>{0, 0, 0});
      ops->check_ids({&check, 1}, flag.view(), where.view());
      IdPart part;
      part.ids = memory.of(wide), part.bags = bags, part.lengths = check.lengths;
      std::vector<int64_t> want;
      for (const int64_t id : wide) {
        if (id >= 1 && id < 4) want.push_back(id - 1);
      }
      const IdFilter filter{{&part, 1},
                            1,
                            3,
                            memory.of(std::vector<int64_t>(want.size(), -1)),
                            memory.of(std::vector<int64_t>(lengths.size() + 1))};
      ops->filter_ids({&filter, 1});
      const PackedList packed{memory.of(narrow), memory.of(std::vector<int64_t>(wide.size(), -1)),
                              count, 0};
      ops->unpack({&packed, 1});
      stream->synchronize();
      EXPECT_EQ(std::vector<int64_t>(filter.ids, filter.ids + want.size()), want) << bags;
      EXPECT_EQ(std::vector<int64_t>(packed.to, packed.to + count), wide) << bags;
      EXPECT_EQ(download(flag.data(), 1)[0], bags > 8 ? 1 : 0) << bags;
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
