// Each estimate of a rank's memory, byte by byte.
#include "plan/memory.h"

#include <cmath>

#include "plan/gpu_memory.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

/// 13 dense features, a bottom MLP of 64 and 16, a top MLP of 64 and 1, and Z = [X, E] of width 39.
RunConfig three_tables() {
  return config_of({table("a", 100, 8, {1, 2}), table("b", 10, 4, {5}), table("c", 2, 3)}, 5);
}

RunConfig on_gpu(RunConfig config) {
  config.device = DeviceKind::kCuda;
  return config;
}

constexpr DType kFp32 = DType::kFloat32, kBf16 = DType::kBFloat16;
constexpr int64_t kParameters = 14 * 64 + 65 * 16 + 40 * 64 + 65;
constexpr int64_t kOutputs = 64 + 16 + 64 + 1;  // of the layers
/// Of x, w and y of a bf16 product of 3 samples: the widest vectors have 64, the largest weight 39
/// x 64.
constexpr int64_t kFp32Copies = 4 * (2 * 3 * 64 + 39 * 64);

TEST(DenseBytes, WeightsGradientsStateAndCopiesCount) {
  RunConfig config = three_tables();
  EXPECT_EQ(dense_bytes(config), kParameters * 8);
  config.train.dense_optimizer.type = OptimizerRule::kAdagrad;
  EXPECT_EQ(dense_bytes(config), kParameters * 12);
  config.train.dense_optimizer.type = OptimizerRule::kAdam;
  EXPECT_EQ(dense_bytes(config), kParameters * 16);
  config.train.precision = Precision::kBf16;
  EXPECT_EQ(dense_bytes(config), kParameters * 18);
}

TEST(DenseBytes, OnAGpuRowsAndTensorsArePadded) {
  RunConfig config = on_gpu(three_tables());
  // A row for each output; a weight and a bias for each layer, and one array more. An interaction
  // has at most 9 tensors unless it says how many.
  EXPECT_EQ(dense_bytes(config), (kParameters + 16 * (kOutputs + 2 * 4 + 9 + 1)) * 8);
  config.train.dense_optimizer.type = OptimizerRule::kAdam;
  config.model.interaction = CrossConfig{2, 3};
  const int64_t cross = 2 * (3 * 39 + 39 * 3 + 39);
  EXPECT_EQ(dense_bytes(config),
            (kParameters + cross + 16 * (kOutputs + 2 * (3 + 39) + 2 * 4 + 3 * 2 + 1)) * 16);
}

TEST(ActivationBytes, EveryLayersOutputAndGradientCount) {
  RunConfig config = three_tables();
  const int64_t elements = 13 + kOutputs + 39;
  EXPECT_EQ(activation_bytes(config, 3), 3 * 2 * elements * 4);
  config.train.precision = Precision::kBf16;
  EXPECT_EQ(activation_bytes(config, 3), 3 * 2 * elements * 2 + kFp32Copies);
  config.model.interaction = CrossConfig{2, 3};
  EXPECT_EQ(activation_bytes(config, 3), 3 * 2 * (elements + 2 * (2 * 39 + 3)) * 2 + kFp32Copies);
}

TEST(ActivationBytes, SomeActivationsKeepTheirInputsExceptOfTheLogit) {
  RunConfig config = three_tables();
  const double relu = activation_bytes(config, 3);
  config.model.activation = Activation::kGelu;
  EXPECT_EQ(activation_bytes(config, 3) - relu, 3 * (kOutputs - 1) * 4);
  config.model.activation = Activation::kTanh;
  EXPECT_EQ(activation_bytes(config, 3), relu);
}

TEST(ActivationBytes, OnAGpuRowsArePaddedAndReluHasMasks) {
  RunConfig config = three_tables();
  const int64_t buffers = 2 * 4 + 8;  // beside the interaction's
  const double masks = kOutputs / 8.0 + 16 * 4;
  for (const auto& [precision, element] : {std::pair{Precision::kFp32, 4}, {Precision::kBf16, 2}}) {
    config.train.precision = precision;
    EXPECT_EQ(activation_bytes(on_gpu(config), 3) - activation_bytes(config, 3),
              3 * (16 * (buffers + 9) * element + masks) - (element == 2 ? kFp32Copies : 0));
  }
  config.model.interaction = CrossConfig{2, 3};
  EXPECT_EQ(activation_bytes(on_gpu(config), 3) - activation_bytes(config, 3),
            3 * (16 * (buffers + 6) * 2 + masks) - kFp32Copies);
}

TEST(ExchangeBytes, VectorsAndGradientsShareABufferOfTheWiderType) {
  RunConfig config = three_tables();
  config.model.interaction = FmConfig();
  EXPECT_EQ(local_exchange_bytes(config, 3), 3 * 2 * 4 * (2 * 8 + 4 + 3));
  EXPECT_EQ(row_sum_bytes(config, config.model.tables[0], 3), 0);
  config.train.precision = Precision::kBf16;
  EXPECT_EQ(local_exchange_bytes(config, 3), 3 * 2 * 2 * (2 * 8 + 4 + 3));
  EXPECT_EQ(row_sum_bytes(config, config.model.tables[0], 3), 3 * 4 * 2 * 8);
  const auto expect = [](DType forward, DType backward, int message, int owned) {
    const WireConfig wire{forward, backward};
    EXPECT_EQ(message_float_bytes(wire), message);
    EXPECT_EQ(owned_float_bytes(wire), owned);
  };
  expect(DType::kFloat32, DType::kFloat32, 4, 4);
  expect(DType::kBFloat16, DType::kFloat32, 4, 4);
  expect(DType::kBFloat16, DType::kBFloat16, 2, 2);
  // An owner computes in fp32 what it sends as fp16.
  expect(DType::kFloat32, DType::kFloat16, 4, 4 + 2);
  expect(DType::kFloat16, DType::kBFloat16, 2, 4 + 2);
}

TEST(ExchangeBytes, NothingButDotFmAndAPoolHasVectorsBesideTheInteraction) {
  RunConfig config = three_tables();
  const auto bytes_with = [&](const InteractionConfig& interaction) {
    config.model.interaction = interaction;
    return local_exchange_bytes(config, 3);
  };
  EXPECT_EQ(bytes_with(ConcatConfig()), 0);
  EXPECT_EQ(bytes_with(CrossConfig{2, 3}), 0);
  EXPECT_EQ(bytes_with(DotConfig()), 3 * 2 * 4 * 23);
  EXPECT_EQ(bytes_with(ConcatConfig{ConcatOrder::kDenseFirst, 4}), 3 * 2 * 4 * 23);
}

TEST(ExchangeBytes, OfBf16WholeSumsOfAnEvenWidthTravelInBf16) {
  RunConfig config = three_tables();
  config.train.precision = Precision::kBf16;
  TableConfig& a = config.model.tables[0];
  const double room = vector_room(config, a, 100, 5), cut = vector_room(config, a, 50, 5);
  EXPECT_EQ(owner_exchange_bytes(config, a, 100, 6, 2, kBf16), room * 6 * 2);
  EXPECT_EQ(owner_exchange_bytes(config, a, 100, 5, 2, kBf16), room * 5 * 4);
  EXPECT_EQ(owner_exchange_bytes(config, a, 50, 6, 2, kBf16), cut * 6 * 4);
  EXPECT_EQ(owner_exchange_bytes(config, a, 100, 6, 2, kFp32), room * 6 * 4);
  a.features[0].pooling = Pooling::kMean;
  EXPECT_EQ(owner_exchange_bytes(config, a, 100, 6, 2, kBf16), room * 6 * 4);
}

TEST(ExchangeBytes, OneRankReturnsVectorsOfCutRowsAlone) {
  RunConfig config = three_tables();
  const TableConfig& a = config.model.tables[0];
  EXPECT_EQ(owner_exchange_bytes(config, a, 100, 6, 1, kFp32), 0);
  EXPECT_GT(owner_exchange_bytes(config, a, 50, 6, 1, kFp32), 0);
  config.model.interaction = FmConfig();
  const auto exchange = [&](const std::vector<Shard>& shards) {
    return rank_memory(config, {1, shards, {2}})[0].exchange;
  };
  const Shard whole_b{1, {0, 10}, {0, 4}, 0};
  EXPECT_EQ(exchange({{0, {0, 100}, {0, 8}, 0}, whole_b}),
            local_exchange_bytes(config, 5) +
                replicated_gradient_bytes(config, config.model.tables[2], 1));
  // If a table is cut, all of them are returned in messages.
  const double both = 2 * 5 * (2 * vector_room(config, a, 50, 1) * 8 + 4);
  EXPECT_DOUBLE_EQ(exchange({{0, {0, 50}, {0, 8}, 0}, {0, {50, 100}, {0, 8}, 0}, whole_b}),
                   exchange({{0, {0, 100}, {0, 8}, 0}, whole_b}) + 4 * both);
}

TEST(VectorRoom, CutRowsReturnTheBagsThatHaveAnId) {
  RunConfig config = three_tables();
  const TableConfig& a = config.model.tables[0];
  EXPECT_EQ(vector_room(config, a, 100, 40), 2 * 40);
  // Of bags of 1 and 2 ids.
  EXPECT_DOUBLE_EQ(vector_room(config, a, 25, 40), 1.25 * 40 * (0.25 + 1 - 0.75 * 0.75));
  // Most of the bags of 2 ids have one here, so that all are returned.
  EXPECT_DOUBLE_EQ(vector_room(config, a, 70, 40), 1.25 * 40 * 0.7 + 40);
  EXPECT_DOUBLE_EQ(vector_room_of_all(config, a, 25, 3), vector_room(config, a, 25, 5));
  EXPECT_DOUBLE_EQ(owner_exchange_bytes(config, a, 25, 6, 3, kFp32),
                   vector_room(config, a, 25, 5) * 6 * 4);
  config.routing.mode = RoutingMode::kFixed;
  EXPECT_EQ(vector_room(config, a, 25, 40), 2 * 40);
}

TEST(VectorRoom, OnAGpuListsOfARankHaveCapacities) {
  RunConfig config = on_gpu(config_of({table("t", 100, 8, {1})}, 2002));
  const TableConfig& t = config.model.tables[0];
  EXPECT_EQ(vector_room(config, t, 100, 400), 400);
  EXPECT_DOUBLE_EQ(vector_room(config, t, 4, 400), 1.25 * (16 + 4 + 7 * 4));
  EXPECT_EQ(vector_room(config, t, 4, 5), 5);
  // One rank has 1 sample more, and another one, too.
  EXPECT_DOUBLE_EQ(vector_room_of_all(config, t, 4, 4),
                   2 * vector_room(config, t, 4, 500) + 2 * vector_room(config, t, 4, 501));
}

TEST(ReplicatedGradientBytes, PairsOfAllRanksOrAllRowsCount) {
  const RunConfig config = config_of({table("large", 1000000, 7, {2})}, 5);
  const TableConfig& large = config.model.tables[0];
  // The largest rank has 3 samples.
  const double unique = 1e6 * (1 - std::pow(1 - 1e-6, 6));
  EXPECT_NEAR(replicated_gradient_bytes(config, large, 2), unique * (3 * (8 + 4 * 7) + 2 * 24),
              1e-6);
  const RunConfig small = three_tables();
  EXPECT_EQ(replicated_gradient_bytes(small, small.model.tables[2], 2), 2 * (3 + 1) * 4);
}

TEST(ReplicatedGradientBytes, OnAGpuRowsMasksListsAndLocalGradientsCount) {
  const RunConfig config = on_gpu(three_tables());
  const TableConfig& a = config.model.tables[0];
  EXPECT_EQ(replicated_gradient_bytes(config, a, 2), 100 * 4 * 9);
  EXPECT_EQ(replicated_gradient_bytes(config, a, 1), 0);
}

TEST(RoutedBytes, IdsAndOffsetsOfTheBatchesInFlightCount) {
  RunConfig config = three_tables();
  const TableConfig& a = config.model.tables[0];
  config.routing.depth = 2;
  EXPECT_EQ(routed_bytes(config, a, 100, 4, 2), (3 * 16 + 40) * 4 * 3 + 3 * 8 * (4 * 2 + 1));
  const double ids = 1.25 * 4 * 3 * 0.25, bags = 1.25 * 4 * (0.25 + 1 - 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(routed_bytes(config, a, 25, 4, 2), (3 * 16 + 40) * ids + 3 * 8 * (bags + 1));
  config.routing.mode = RoutingMode::kFixed;
  EXPECT_EQ(routed_bytes(config, a, 25, 4, 2), (3 * 16 + 40) * 4 * 3 + 3 * 8 * (4 * 2 + 1));
}

/// What the ids of a GPU take: in the batches in flight, segments, sorting, and long segments.
double on_gpu_routed(int in_flight, double ids, double offsets, int key_bytes, int64_t dim) {
  const double lists = static_cast<double>(dim) * 4 + 12 * std::ceil(static_cast<double>(dim) / 32);
  return in_flight * (12 * ids + 16 * offsets) + ids * (24 + 3 * (key_bytes + 4)) +
         ids / 64 * 1.1 * (lists + 64);
}

TEST(RoutedBytes, OnAGpuListsOfIdsInCutRowsHaveCapacities) {
  RunConfig config = on_gpu(three_tables());
  const TableConfig& a = config.model.tables[0];
  EXPECT_DOUBLE_EQ(routed_bytes(config, a, 100, 4, 2), on_gpu_routed(2, 12, 10, 4, 8));
  // Two ranks have 2 samples each, with bags of 1 and 2 ids.
  const double ids = 2 * 1.25 * ((1 + 4 + 7) + (2 + 4 + 7 * std::sqrt(2)));
  for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
    config.routing.mode = mode;
    EXPECT_DOUBLE_EQ(routed_bytes(config, a, 50, 4, 2), on_gpu_routed(2, ids, 10, 4, 8));
  }
}

TEST(RoutedBytes, OnAGpuOffsetsOfListedBagsCount) {
  const RunConfig config = on_gpu(config_of({table("t", 1000, 8, {1})}, 800));
  const double ids = 2 * 1.25 * (4 + 4 + 7 * 2);
  EXPECT_DOUBLE_EQ(routed_bytes(config, config.model.tables[0], 10, 800, 2),
                   on_gpu_routed(2, ids, ids + 1, 4, 8));
}

TEST(RoutedBytes, OnAGpuKeysAreWideIfAllTablesHaveTooManyRows) {
  const int64_t half = int64_t{1} << 31;
  for (const auto& [rows, key_bytes] : {std::pair{half - 1, 4}, {half, 8}}) {
    const RunConfig config = on_gpu(config_of({table("a", half, 40), table("b", rows, 4)}, 4));
    EXPECT_DOUBLE_EQ(routed_bytes(config, config.model.tables[0], half, 4, 1),
                     on_gpu_routed(2, 4, 5, key_bytes, 40));
  }
}

TEST(ReturnedListBytes, OnlyFeaturesWithLessThanAnIdABagHaveLists) {
  RunConfig config = config_of({table("t", 12, 8, {1, 2, 3})}, 4);
  const TableConfig& t = config.model.tables[0];
  config.routing.depth = 2;
  EXPECT_EQ(returned_list_bytes(config, t, {0, 4}, 5), 3 * 8 * 5 * (1 + 2 + 3) / 3);
  EXPECT_EQ(returned_list_bytes(config, t, {0, 6}, 5), 3 * 8 * 5 * (1 + 2) * 0.5);
  EXPECT_EQ(returned_list_bytes(on_gpu(config), t, {0, 4}, 5), 3 * 8 * 5 * 3);
  EXPECT_EQ(returned_list_bytes(on_gpu(config), t, {0, 6}, 5), 3 * 8 * 5 * 2);
  EXPECT_EQ(returned_list_bytes(config, t, {0, 12}, 5), 0);
  config.routing.mode = RoutingMode::kFixed;
  EXPECT_EQ(returned_list_bytes(config, t, {0, 4}, 5), 0);
}

TEST(GpuMessageBytes, AreIdsAndLengthsOfTheBatchesInFlight) {
  RunConfig config = on_gpu(three_tables());
  EXPECT_EQ(gpu_message_bytes(config, config.model.tables[0]), 2 * 5 * (4 * 3 + 4 * 2));
  config.model.tables[0].rows = (int64_t{1} << 31) + 1;
  EXPECT_EQ(gpu_message_bytes(config, config.model.tables[0]), 2 * 5 * (8 * 3 + 4 * 2));
}

TEST(GpuSquareSumBytes, OnlyColumnsOfRowwiseAdagradHaveThem) {
  RunConfig config = on_gpu(three_tables());
  const TableConfig& a = config.model.tables[0];
  EXPECT_EQ(gpu_square_sum_bytes(config, a, 100, 6, 2, false), 0);
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  EXPECT_EQ(gpu_square_sum_bytes(config, a, 100, 6, 2, false), 5 * 3 * (4 * 6 + 24));
  const double ids = 1.25 * 2 * (4 + 1.25 + 7 * std::sqrt(1.25) + 4 + 2.5 + 7 * std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(gpu_square_sum_bytes(config, a, 50, 6, 2, false), ids * (4 * 6 + 24));
  EXPECT_EQ(gpu_square_sum_bytes(config, a, 100, 8, 2, false), 0);
  EXPECT_EQ(gpu_square_sum_bytes(config, a, 100, 6, 2, true), 5 * 3 * (4 * 6 + 24 + 4 + 8 * 2));
  EXPECT_EQ(gpu_square_sum_bytes(config, a, 100, 8, 2, true), 0);
}

TEST(GpuSquareSumBytes, AnOrderIsKeptIfPartsHaveSomeRowsOfEachOther) {
  RunConfig config = on_gpu(config_of({table("a", 100, 8), table("b", 100, 8)}, 64));
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  config.routing.mode = RoutingMode::kFixed;  // all vectors are returned, whatever the rows
  // A is cut at row 50, in its last columns at `border`. B follows.
  const auto exchange_with = [&](int64_t border) {
    const Plan plan{5,
                    {{0, {0, 50}, {0, 4}, 0},
                     {0, {50, 100}, {0, 4}, 1},
                     {0, {0, border}, {4, 8}, 2},
                     {0, {border, 100}, {4, 8}, 3},
                     {1, {0, 60}, {0, 4}, 4},
                     {1, {60, 100}, {0, 4}, 4},
                     {1, {0, 60}, {4, 8}, 4},
                     {1, {60, 100}, {4, 8}, 4}},
                    {}};
    std::vector<double> bytes;
    for (const RankMemory& rank : rank_memory(config, plan)) bytes.push_back(rank.exchange);
    return bytes;
  };
  const std::vector<double> equal = exchange_with(50);
  const TableConfig& a = config.model.tables[0];
  const double order = gpu_square_sum_bytes(config, a, 50, 4, 5, true) -
                       gpu_square_sum_bytes(config, a, 50, 4, 5, false);
  for (const int64_t border : {40, 60}) {
    const std::vector<double> different = exchange_with(border);
    for (const size_t rank : {0, 1}) EXPECT_DOUBLE_EQ(different[rank] - equal[rank], order);
    for (const size_t rank : {2, 3}) EXPECT_GT(different[rank] - equal[rank], order / 2);
    EXPECT_EQ(different[4], equal[4]);
  }
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  const std::vector<double> without = exchange_with(50);
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  const auto sums = [&](int64_t rows) {
    return gpu_square_sum_bytes(config, config.model.tables[1], rows, 4, 5, false);
  };
  EXPECT_DOUBLE_EQ(equal[4] - without[4], 2 * (sums(60) + sums(40)));
}

TEST(ShardOwnerBytes, RowsStateVectorsAndIdsCount) {
  const RunConfig config = three_tables();
  const TableConfig& a = config.model.tables[0];
  EXPECT_DOUBLE_EQ(shard_owner_bytes(config, a, 50, 3, 2),
                   50 * 4 * 4 + 50 * 4 * 4 + owner_exchange_bytes(config, a, 50, 3, 2, kFp32) +
                       routed_bytes(config, a, 50, 5, 2));
}

TEST(CommonBytes, EverythingButShardsCounts) {
  const RunConfig config = three_tables();
  const double messages = 3 * 4 * (2 * 8 + 4 + 3);
  EXPECT_EQ(common_bytes(config, 2, 3),
            dense_bytes(config) + activation_bytes(config, 3) + input_bytes(config, 3) + messages);
  EXPECT_EQ(common_bytes(on_gpu(config), 2, 3) - library_bytes(on_gpu(config)),
            dense_bytes(on_gpu(config)) + activation_bytes(on_gpu(config), 3) +
                input_bytes(on_gpu(config), 3) + messages);
  EXPECT_EQ(common_bytes(config, 1, 5),
            dense_bytes(config) + activation_bytes(config, 5) + input_bytes(config, 5));
  EXPECT_EQ(library_bytes(on_gpu(config)), 512.0 * 1024 * 1024);
}

/// Batch 5 over 2 ranks: `a` is whole on rank 0, `b` is cut at row 4 of 10, `c` is on both. Ranks 0
/// and 1 have 2 and 3 samples.
class MemoryOfTwoRanks : public ::testing::TestWithParam<DeviceKind> {
 protected:
  MemoryOfTwoRanks() { config.device = GetParam(); }
  const TableConfig& a() const { return config.model.tables[0]; }
  const TableConfig& b() const { return config.model.tables[1]; }
  const TableConfig& c() const { return config.model.tables[2]; }

  RunConfig config = three_tables();
  Plan plan{2, {{0, {0, 100}, {0, 8}, 0}, {1, {0, 4}, {0, 4}, 0}, {1, {4, 10}, {0, 4}, 1}}, {2}};
};

TEST_P(MemoryOfTwoRanks, IsTheSumOfItsParts) {
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  for (size_t rank = 0; rank < 2; ++rank) {
    const int64_t local = rank == 0 ? 2 : 3;
    EXPECT_EQ(memory[rank].dense, dense_bytes(config));
    EXPECT_EQ(memory[rank].activations, activation_bytes(config, local));
    EXPECT_EQ(memory[rank].input, input_bytes(config, local));
    EXPECT_EQ(memory[rank].libraries, library_bytes(config));
    // Vectors of all shards are received, and those of the own shards are pooled.
    const double owned = rank == 0 ? owner_exchange_bytes(config, a(), 100, 8, 2, kFp32) +
                                         owner_exchange_bytes(config, b(), 4, 4, 2, kFp32)
                                   : owner_exchange_bytes(config, b(), 6, 4, 2, kFp32);
    const double floats = 8 * vector_room(config, a(), 100, local) +
                          4 * vector_room(config, b(), 4, local) +
                          4 * vector_room(config, b(), 6, local);
    EXPECT_DOUBLE_EQ(memory[rank].exchange, owned + replicated_gradient_bytes(config, c(), 2) +
                                                local_exchange_bytes(config, local) + 4 * floats);
    const double routed =
        rank == 0 ? routed_bytes(config, a(), 100, 5, 2) + routed_bytes(config, b(), 4, 5, 2)
                  : routed_bytes(config, b(), 6, 5, 2);
    EXPECT_DOUBLE_EQ(memory[rank].routing, routed + routed_bytes(config, c(), 2, 3, 1));
  }
}

TEST_P(MemoryOfTwoRanks, HasSumsOfCutRowsIfEIsRounded) {
  config.model.interaction = FmConfig();
  const double cut = rank_memory(config, plan)[1].exchange;
  config.train.precision = Precision::kBf16;
  // Vectors of `a` travel in bf16.
  EXPECT_DOUBLE_EQ(rank_memory(config, plan)[1].exchange - cut,
                   row_sum_bytes(config, b(), 3) - local_exchange_bytes(config, 3) -
                       2 * 8 * vector_room(config, a(), 100, 3));
}

TEST_P(MemoryOfTwoRanks, RowsAreInTheirTier) {
  config.train.sparse_optimizer.type = OptimizerRule::kAdam;
  plan.shards[1].tier = MemoryTier::kHost;
  plan.host_replicas = {2};
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  EXPECT_EQ(memory[0].tables, 100 * 8 * 4);
  EXPECT_EQ(memory[0].optimizer_state, 2 * 100 * 8 * 4);
  EXPECT_EQ(memory[0].host_tables, 4 * 4 * 4 + 2 * 4 * 4);
  EXPECT_EQ(memory[0].host_optimizer_state, 2 * (4 * 4 * 4 + 2 * 4 * 4));
  EXPECT_EQ(memory[1].tables, 6 * 4 * 4);
  EXPECT_EQ(memory[1].host_tables, 2 * 4 * 4);
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  for (size_t rank = 0; rank < 2; ++rank) {
    const RankMemory& own = memory[rank];
    EXPECT_DOUBLE_EQ(loads[rank].table_bytes,
                     own.tables + own.optimizer_state + own.host_tables + own.host_optimizer_state);
    EXPECT_DOUBLE_EQ(loads[rank].other_bytes, own.dense + own.activations + own.exchange +
                                                  own.routing + own.input + own.libraries);
  }
}

TEST_P(MemoryOfTwoRanks, ListsOfReturnedBagsCountForEveryShard) {
  config.model.tables[1].features[0].hotness = 1;
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  // Of both parts of `b`, on both ranks.
  const double lists =
      returned_list_bytes(config, b(), {0, 4}, 1) + returned_list_bytes(config, b(), {4, 10}, 1);
  EXPECT_DOUBLE_EQ(lists, 2 * 8 * (GetParam() == DeviceKind::kCpu ? 1 : 2));
  EXPECT_DOUBLE_EQ(memory[1].routing, routed_bytes(config, b(), 6, 5, 2) +
                                          routed_bytes(config, c(), 2, 3, 1) + 3 * lists);
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryOfTwoRanks,
                         ::testing::Values(DeviceKind::kCpu, DeviceKind::kCuda),
                         [](const auto& info) {
                           return std::string(info.param == DeviceKind::kCpu ? "Cpu" : "Gpu");
                         });

TEST(RankMemory, FixedRoutingOnAGpuReceivesTheIdsOfATableOnce) {
  RunConfig config = on_gpu(config_of({table("t", 10, 8, {3})}, 4));
  const Plan plan{2, {{0, {0, 5}, {0, 8}, 0}, {0, {5, 10}, {0, 8}, 1}}, {}};
  config.routing.mode = RoutingMode::kFixed;
  const TableConfig& t = config.model.tables[0];
  for (const RankMemory& memory : rank_memory(config, plan)) {
    EXPECT_DOUBLE_EQ(memory.routing, routed_bytes(config, t, 5, 4, 2) + 2 * 4 * (4 * 3 + 4));
  }
}

TEST(RankMemory, FixedRoutingOnAGpuReceivesTheIdsOfAWholeTable) {
  RunConfig config = on_gpu(config_of({table("t", 10, 8, {3})}, 4));
  config.routing.mode = RoutingMode::kFixed;
  const Plan plan{2, {{0, {0, 10}, {0, 8}, 1}}, {}};
  EXPECT_DOUBLE_EQ(rank_memory(config, plan)[0].routing, 2 * 4 * (4 * 3 + 4));
}

TEST(RankMemory, ColumnsOfRowwiseAdagradOnAGpuExchangeSquares) {
  RunConfig config = on_gpu(config_of({table("t", 10, 8, {3})}, 4));
  const Plan plan{2, {{0, {0, 10}, {0, 5}, 0}, {0, {0, 10}, {5, 8}, 1}}, {}};
  const double before = rank_memory(config, plan)[1].exchange;
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  EXPECT_EQ(rank_memory(config, plan)[1].exchange - before, 4 * 3 * (4 * 3 + 24));
  config.device = DeviceKind::kCpu;
  EXPECT_EQ(rank_memory(config, plan)[1].exchange, before);
}

}  // namespace
}  // namespace dlrm::plan_test
