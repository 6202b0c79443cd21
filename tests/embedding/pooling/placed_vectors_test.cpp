#include <gtest/gtest.h>

#include "covering.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

const std::vector<int64_t> kPlacedBatches{13, 2, 16, 13};

/// E of each batch, sample by sample, and the tables after it.
struct Trained {
  std::vector<std::vector<float>> vectors;
  Tensors tensors;
};

/// A matrix of `type` in the rank's memory, as an interaction offers it. Its rows have a margin.
struct Place {
  static constexpr int64_t kBefore = 5, kBehind = 2;
  Buffer memory;
  Matrix matrix;

  Place(Device& device, DType type, int64_t rows, int64_t width)
      : memory(device, static_cast<size_t>(rows * (kBefore + width + kBehind)) * size_of(type),
               "place"),
        matrix(
            Matrix(memory.data(), type, rows, kBefore + width + kBehind).columns(kBefore, width)) {}
};

std::vector<float> floats_of(Rank& rank, const Matrix& m) {
  const Array<float> values(*rank.device, static_cast<size_t>(m.rows * m.cols), "values");
  const MatrixView<float> exact(values.data(), m.rows, m.cols);
  rank.ops->convert(m, exact);
  return values_of(rank.context, exact);
}

void write(Rank& rank, const std::vector<float>& values, const Matrix& to) {
  const Array<float> exact(*rank.device, values.size(), "values");
  const MatrixView<float> from(exact.data(), to.rows, to.cols);
  Transfer(*rank.device, *rank.stream)
      .write_rows(from.data, from.stride, from.rows, from.cols, values.data());
  rank.ops->convert(from, to);
  rank.stream->synchronize();
}

std::vector<float> all_ranks(Communicator& comm, const std::vector<float>& mine) {
  return comm.allgatherv<float>(View<const float>(mine));
}

/// Gradients that bf16 holds, and that do not depend on E.
std::vector<float> gradients(int64_t step, Range local, int64_t width) {
  std::vector<float> values;
  for (int64_t i = local.begin; i < local.end; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      values.push_back(
          static_cast<float>(BFloat16(static_cast<float>(made_up_gradient(step, i, c, 0)))));
    }
  }
  return values;
}

/// `threads`: -1 for a GPU. With `type`, vectors and gradients are in places of that type.
Trained trained_vectors(const Plan& plan, const EmbeddingOptions& options,
                        std::optional<DType> type, int threads = 0) {
  Trained result;
  const MadeUpBags bags(options.tables);
  run_on_threads(plan.world, [&](Communicator& comm) {
    Rank rank = threads < 0 ? Rank(comm, OnGpu()) : Rank(comm, threads);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    std::optional<Place> e, de;
    if (type) {
      e.emplace(*rank.device, *type, 16, embeddings.width());
      de.emplace(*rank.device, *type, 16, embeddings.width());
      embeddings.pool_into(e->matrix);
      embeddings.read_gradients_from(de->matrix);
    }
    std::vector<std::vector<float>> vectors;
    for (size_t t = 0; t < kPlacedBatches.size(); ++t) {
      const auto step = static_cast<int64_t>(t);
      const Range local = part_of(kPlacedBatches[t], comm.rank(), comm.size());
      route(embeddings, comm, bags, step, kPlacedBatches[t]);
      embeddings.await_ids();
      embeddings.prepare_ids();
      embeddings.lookup();
      embeddings.start_return();
      embeddings.sort_ids();
      const Matrix pooled = embeddings.finish_return();
      if (e) {
        EXPECT_EQ(pooled.data, e->matrix.data);
      }
      vectors.push_back(all_ranks(comm, floats_of(rank, pooled)));
      const Matrix gradient = embeddings.gradient();
      if (de) {
        EXPECT_EQ(gradient.data, de->matrix.data);
      }
      write(rank, gradients(step, local, embeddings.width()), gradient);
      embeddings.start_backward();
      embeddings.update(options.optimizer.lr, step);
    }
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = {vectors, tensors};
  });
  return result;
}

std::vector<std::vector<float>> rounded(std::vector<std::vector<float>> vectors) {
  for (std::vector<float>& batch : vectors) {
    for (float& value : batch) value = static_cast<float>(BFloat16(value));
  }
  return vectors;
}

struct PlacedCase {
  std::string plan;
  Pooling pooling;
  DType wire;
};
void PrintTo(const PlacedCase& c, std::ostream* out) { *out << c.plan; }

std::vector<PlacedCase> placed_cases() {
  std::vector<PlacedCase> cases;
  for (const auto& [plan, pooling, wire] : covering_pairs(
           std::vector<std::string>{"table", "row", "column", "grid", "two_columns_a_rank",
                                    "data_parallel", "mixed", "ragged"},
           std::vector{Pooling::kSum, Pooling::kMean},
           std::vector{DType::kFloat32, DType::kBFloat16})) {
    cases.push_back({plan, pooling, wire});
  }
  return cases;
}

class PlacedVectors : public ::testing::TestWithParam<PlacedCase> {
 protected:
  EmbeddingOptions options(OptimizerRule rule) const {
    EmbeddingOptions all = options_for(odd_tables(GetParam().pooling), rule);
    all.wire.forward = all.wire.backward = GetParam().wire;
    all.max_global_batch = 16;
    return all;
  }

  /// Vectors in bf16 are those in fp32, summed over all shards and then rounded once. Gradients in
  /// bf16 train to the bits of the same numbers in fp32.
  void expect_rounded_once(int ranks, int threads,
                           OptimizerRule rule = OptimizerRule::kAdagrad) const {
    const EmbeddingOptions all = options(rule);
    const Plan plan = plan_of(GetParam().plan, all.tables, ranks);
    const Trained exact = trained_vectors(plan, all, std::nullopt, threads);
    const Trained placed = trained_vectors(plan, all, DType::kBFloat16, threads);
    EXPECT_EQ(placed.vectors, rounded(exact.vectors));
    EXPECT_EQ(placed.tensors, exact.tensors);
    EXPECT_EQ(trained_vectors(plan, all, DType::kFloat32, threads).vectors, exact.vectors);
    if (GetParam().pooling == Pooling::kMean || GetParam().wire != DType::kFloat32) return;
    EmbeddingOptions narrow = all;  // see RunConfig::sent_types()
    narrow.wire.backward = DType::kBFloat16;
    EXPECT_EQ(trained_vectors(plan, narrow, DType::kBFloat16, threads).tensors, placed.tensors);
  }
};

TEST_P(PlacedVectors, FourRanksRoundVectorsOnceWithEveryOptimizer) {
  for (size_t rule = 0; rule < std::size(kOptimizers); ++rule) {
    if (!kOptimizers[rule].sparse()) continue;
    SCOPED_TRACE(kOptimizers[rule].name);
    expect_rounded_once(4, 0, static_cast<OptimizerRule>(rule));
  }
}
TEST_P(PlacedVectors, OneRankRoundsVectorsOnce) { expect_rounded_once(1, 0); }
TEST_P(PlacedVectors, ThreadsRoundVectorsOnce) { expect_rounded_once(3, 2); }
TEST_P(PlacedVectors, GpusRoundVectorsOnce) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  expect_rounded_once(2, -1);
}

INSTANTIATE_TEST_SUITE_P(Embedding, PlacedVectors, ::testing::ValuesIn(placed_cases()),
                         [](const auto& info) {
                           return info.param.plan +
                                  (info.param.pooling == Pooling::kSum ? "_Sum_" : "_Mean_") +
                                  name_of(info.param.wire);
                         });

}  // namespace
}  // namespace dlrm::testing
