#include "trained_model.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/error.h"
#include "dlrm/core/partition.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/model.h"

#include "tables.h"

namespace dlrm::serve {
namespace {

/// The config of the training, with what a prediction needs.
RunConfig serving_config(const CheckpointState& state, const std::string& checkpoint,
                         const LoadOptions& options) {
  RunConfig config = parse_config(state.config, checkpoint + "/index.h5: config");
  config.train.global_batch_size = options.batch_size;
  config.train.dense_optimizer.type = OptimizerRule::kSgd;  // it has no state
  config.model.dropout = {};
  return config;
}

}  // namespace

LoadOptions LoadOptions::for_requests() const {
  constexpr int64_t kSamplesAThread = 64;
  const int64_t most = std::max<int64_t>(batch_size / kSamplesAThread, 1);  // threads of a batch
  LoadOptions divided = *this;
  divided.batches = static_cast<int>((threads + most - 1) / most);
  return divided;
}

TableType table_type(const std::string& name) {
  if (name == "fp32") return TableType::kFp32;
  if (name == "bf16") return TableType::kBf16;
  if (name == "int8") return TableType::kInt8;
  if (name == "mapped") return TableType::kMapped;
  throw usage_error("--tables {}: expected fp32, bf16, int8 or mapped", name);
}

namespace {

/// The dense layers of a model, and what a thread needs to predict with them.
class Predictor {
 public:
  Predictor(const Tables& tables, const RunConfig& config, int threads)
      : batch_size_(config.train.global_batch_size),
        device_(make_cpu_device()),
        stream_(device_->make_stream()),
        comm_(make_self_comm()),
        context_{*device_, *stream_, *comm_, trace_, log_, nullptr, threads},
        ops_(make_cpu_ops(*device_, *stream_, threads)),
        lookup_(tables, *device_, *ops_, batch_size_),
        model_(context_, *ops_, config),
        dense_features_(config.model.dense_features),
        labels_(static_cast<size_t>(config.model.num_labels())) {}

  Parameters& parameters() { return model_.parameters(); }

  void predict(const Samples& samples, View<float> p) {
    const Progress none = [] {};
    for (int64_t first = 0; first < samples.size; first += batch_size_) {
      const int64_t count = std::min(batch_size_, samples.size - first);
      const auto at = [&](int64_t n) { return static_cast<size_t>(n); };
      const MatrixView<float> e = lookup_(samples, first, count);
      model_.bottom(View<const float>(samples.dense)
                        .subspan(at(first * dense_features_), at(count * dense_features_)),
                    count, none);
      model_.interact(e, none);
      model_.top(none);
      model_.start_probabilities();
      finish(p.subspan(at(first) * labels_, at(count) * labels_), at(count));
    }
  }

 private:
  /// p [count, labels]: sample by sample, while the model has label by label.
  void finish(View<float> p, size_t count) {
    const Progress none = [] {};
    if (labels_ == 1) return model_.finish_probabilities(p, none);
    by_label_.resize(p.size());
    model_.finish_probabilities(by_label_, none);
    for (size_t k = 0; k < p.size(); ++k) p[k] = by_label_[k % labels_ * count + k / labels_];
  }

  const int64_t batch_size_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Communicator> comm_;
  Trace trace_;
  Log log_;
  Context context_;
  std::unique_ptr<Ops> ops_;
  TableLookup lookup_;
  Model model_;
  const int64_t dense_features_;
  const size_t labels_;
  std::vector<float> by_label_;
};

}  // namespace

class TrainedModel::Impl {
 public:
  Impl(Communicator& comm, const std::string& checkpoint, const RunConfig& config,
       const LoadOptions& options)
      : device_(make_cpu_device()),
        tables_(*device_, config.model, options.tables, options.threads) {
    DLRM_CHECK(options.batches >= 1 && options.batches <= options.threads,
               "{} batches at the same time on {} threads", options.batches, options.threads);
    tables_.hold_rows(comm, checkpoint);
    std::vector<TensorShard> shards = tables_.shards();
    for (int i = 0; i < options.batches; ++i) {
      const auto threads = static_cast<int>(part_of(options.threads, i, options.batches).size());
      predictors_.push_back(std::make_unique<Predictor>(tables_, config, threads));
      free_.push_back(predictors_.back().get());
      for (TensorShard& shard : free_.back()->parameters().shards(true)) {
        shards.push_back(std::move(shard));
      }
    }
    load_pieces(comm, checkpoint, shards, /*weights_only=*/true);
    for (const auto& predictor : predictors_) predictor->parameters().refresh_copies();
  }

  int64_t table_bytes() const { return tables_.bytes(); }
  int batches() const { return static_cast<int>(predictors_.size()); }

  void predict(const Samples& samples, View<float> p) {
    const Turn turn(*this);
    turn.predictor->predict(samples, p);
  }

 private:
  /// Takes a predictor that no other thread has.
  struct Turn {
    explicit Turn(Impl& of) : model(of) {
      std::unique_lock lock(model.mutex_);
      model.freed_.wait(lock, [&] { return !model.free_.empty(); });
      predictor = model.free_.back();
      model.free_.pop_back();
    }
    ~Turn() {
      {
        const std::lock_guard lock(model.mutex_);
        model.free_.push_back(predictor);
      }
      model.freed_.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    Impl& model;
    Predictor* predictor = nullptr;
  };

  std::shared_ptr<Device> device_;
  Tables tables_;
  std::vector<std::unique_ptr<Predictor>> predictors_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<Predictor*> free_;
};

TrainedModel::TrainedModel(const std::string& checkpoint, const LoadOptions& options)
    : checkpoint_(checkpoint) {
  const auto comm = make_self_comm();
  const CheckpointState state = open_checkpoint(*comm, checkpoint, /*verified=*/true);
  const RunConfig config = serving_config(state, checkpoint, options);
  step_ = state.step;
  inputs_ = inputs_of(config.model);
  const std::string preprocessing = read_preprocessing(checkpoint);
  if (preprocessing.empty()) {
    no_records_ = "the model takes ids: its training data was not written by dlrm-data import";
  } else {
    try {
      const std::string where = checkpoint + "/index.h5: /preprocessing";
      records_ =
          std::make_unique<RecordInputs>(parse_preprocessing(preprocessing, where), inputs_, where);
    } catch (const Error& error) {
      no_records_ = error.what();
    }
  }
  impl_ = std::make_unique<Impl>(*comm, checkpoint, config, options);
}

TrainedModel::~TrainedModel() = default;

const RecordInputs& TrainedModel::records() const {
  if (!records_) throw usage_error("{}", no_records_);
  return *records_;
}

bool TrainedModel::replaces(const TrainedModel& other) const {
  Inputs known = other.inputs();
  if (takes_records() != other.takes_records() || inputs_.features.size() != known.features.size())
    return false;
  if (takes_records()) {
    std::vector<std::string> features;
    for (const Inputs::Feature& feature : inputs_.features) features.push_back(feature.name);
    const Preprocessing &mine = records_->preprocessing(),
                        &before = other.records_->preprocessing();
    if (!difference(mine, before, features).empty()) return false;
    for (size_t f = 0; f < known.features.size(); ++f) {
      known.features[f].rows = std::max(known.features[f].rows, inputs_.features[f].rows);
    }
  }
  return inputs_ == known;
}

int64_t TrainedModel::table_bytes() const { return impl_->table_bytes(); }

int TrainedModel::batches() const { return impl_->batches(); }

void TrainedModel::predict(const Samples& samples, View<float> p) {
  DLRM_CHECK(p.size() == static_cast<size_t>(samples.size) * inputs_.labels(),
             "{} places for {} samples", p.size(), samples.size);
  impl_->predict(samples, p);
}

}  // namespace dlrm::serve
