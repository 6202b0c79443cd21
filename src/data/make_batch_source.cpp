#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"

#include "criteo_source.h"
#include "hdf5_source.h"
#include "linear_source.h"
#include "parquet/parquet_source.h"
#include "replay_source.h"
#include "synthetic_source.h"

namespace dlrm {
namespace {

const std::vector<std::string>& paths_of(const DataConfig& data, Split split) {
  return split == Split::kTrain ? data.train : split == Split::kValid ? data.valid : data.test;
}

std::unique_ptr<BatchSource> make_hdf5(const RunConfig& config, Split split, int rank, int world) {
  const bool training = split == Split::kTrain;
  Hdf5SourceOptions options;
  options.paths = paths_of(config.data, split);
  if (options.paths.empty()) {
    if (training) throw usage_error("data.train names no file, and data.source is hdf5");
    return nullptr;
  }
  options.batch_size = config.train.global_batch_size;
  options.shuffle = config.data.shuffle && training;
  options.seed = config.train.seed;
  options.invalid_id = config.data.invalid_id;
  options.verify = config.data.verify;
  options.rank = rank;
  options.world = world;
  return std::make_unique<Hdf5Source>(config.model, options);
}

std::unique_ptr<BatchSource> make_criteo(const RunConfig& config, Split split, int rank, int world,
                                         const BatchSource* same_data) {
  const bool training = split == Split::kTrain;
  const std::vector<std::string>& paths = paths_of(config.data, split);
  if (!paths.empty()) {
    return std::make_unique<CriteoSource>(config, paths, rank, world,
                                          dynamic_cast<const CriteoSource*>(same_data));
  }
  if (training) throw usage_error("data.train names no file, and data.source is criteo");
  return nullptr;
}

std::unique_ptr<BatchSource> make_parquet(const RunConfig& config, Split split, int rank,
                                          int world) {
  const bool training = split == Split::kTrain;
  const std::vector<std::string>& paths = paths_of(config.data, split);
  if (paths.empty()) {
    if (training) throw usage_error("data.train names no file, and data.source is parquet");
    return nullptr;
  }
  return std::make_unique<ParquetSource>(config, paths, training, rank, world);
}

/// The source of the samples as they are, without a linear part's second bags.
std::unique_ptr<BatchSource> make_plain(const RunConfig& config, Split split, int rank, int world,
                                        const BatchSource* same_data) {
  const bool generated = config.data.source == DataKind::kSynthetic ||
                         (config.data.source == DataKind::kReplay && config.data.train.empty());
  if (config.data.source == DataKind::kCriteo) {
    return make_criteo(config, split, rank, world, same_data);
  }
  if (config.data.source == DataKind::kParquet) return make_parquet(config, split, rank, world);
  if (generated) return std::make_unique<SyntheticSource>(config, split, rank, world);
  return make_hdf5(config, split, rank, world);
}

std::unique_ptr<BatchSource> make_linear(RunConfig config, Split split, int rank, int world,
                                         const BatchSource* same_data) {
  config.model = config.model.without_linear();
  const auto* linear = dynamic_cast<const LinearSource*>(same_data);
  auto source = make_plain(config, split, rank, world, linear ? &linear->source() : nullptr);
  return source ? std::make_unique<LinearSource>(std::move(source)) : nullptr;
}

}  // namespace

std::unique_ptr<BatchSource> make_batch_source(const RunConfig& config, Split split, int rank,
                                               int world, const BatchSource* same_data) {
  if (split == Split::kValid && config.data.valid.empty()) return nullptr;
  std::unique_ptr<BatchSource> source = config.model.linear
                                            ? make_linear(config, split, rank, world, same_data)
                                            : make_plain(config, split, rank, world, same_data);
  if (config.data.source == DataKind::kReplay && split == Split::kTrain) {
    return std::make_unique<ReplaySource>(*source);
  }
  return source;
}

}  // namespace dlrm
