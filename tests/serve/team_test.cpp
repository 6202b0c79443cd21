// A model that predicts has one team of threads, whatever the size of a request.
#include <gtest/gtest.h>

#include "saved_model.h"
#include "serve/trained_model.h"
#include "threads_here.h"
#include "train/checkpoint_tensors.h"
#include "train/small_run.h"

namespace dlrm::serve {
namespace {

Samples first_of(const Samples& all, int64_t count, const Inputs& inputs) {
  Samples some;
  some.size = count;
  some.dense.assign(all.dense.begin(), all.dense.begin() + count * inputs.dense);
  const auto bags = count * static_cast<int64_t>(inputs.features.size());
  some.offsets.assign(all.offsets.begin(), all.offsets.begin() + bags + 1);
  some.ids.assign(all.ids.begin(), all.ids.begin() + some.offsets.back());
  return some;
}

TEST(PredictingTeam, RequestsOfAnySizeMakeNoThreads) {
  const dlrm::testing::TemporaryFolder folder;
  RunConfig config = odd_model();
  config.model.top_mlp.insert(config.model.top_mlp.begin(), {260, 33});
  config.train.global_batch_size = 900;
  const Evaluated evaluated = save_model(config, folder.path());
  for (const TableType tables : {TableType::kFp32, TableType::kInt8}) {
    LoadOptions options;
    options.tables = tables;
    options.threads = 8;
    TrainedModel model(folder_of(folder.path()), options);
    const auto predict = [&] {
      for (const int64_t size : {evaluated.samples.size, int64_t{1}, int64_t{64}, int64_t{7}}) {
        const Samples samples = first_of(evaluated.samples, size, model.inputs());
        std::vector<float> probabilities(static_cast<size_t>(size));
        model.predict(samples, probabilities);
      }
    };
    predict();
    const auto before = threads_here();
    predict();
    EXPECT_EQ(threads_here(), before);
  }
}

}  // namespace
}  // namespace dlrm::serve
