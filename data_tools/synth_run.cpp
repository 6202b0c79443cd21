#include <algorithm>
#include <bit>
#include <cstring>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/random.h"
#include "dlrm/core/replace_file.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/data/synthetic_draws.h"

#include "synth_options.h"
#include "synth_pipeline.h"
#include "synth_sink.h"
#include "teacher.h"
#include "thread_option.h"

namespace dlrm {
namespace {

// The best AUC is computed over at most this many samples. That takes 128 MiB and a few seconds.
constexpr size_t kScoredSamples = size_t{1} << 24;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

class Synth {
 public:
  explicit Synth(const SynthOptions& options) : options_(options), criteo_(options.criteo) {
    check();
    RunConfig config = criteo_ ? criteo_shape() : load_config(options.config);
    config.model = config.model.without_linear();
    if (options.has_alpha) config.data.synthetic.alpha = options.alpha;
    if (options.has_seed) config.data.synthetic.seed = options.seed;
    seed_ = config.data.synthetic.seed;
    alpha_ = config.data.synthetic.alpha;
    // Small enough that the ids of all threads' blocks fit in memory. All blocks are whole, so that
    // a sample does not depend on the number of samples.
    const auto fit =
        static_cast<uint64_t>(0x1p22 / std::max(1.0, config.model.lookups_per_sample()));
    block_ = static_cast<int64_t>(std::bit_floor(std::clamp<uint64_t>(fit, 64, 8192)));
    end_ = options.first_sample + options.samples;
    config.train.global_batch_size = block_;
    config.data.source = DataKind::kSynthetic;
    config.data.synthetic.samples = (end_ + block_ - 1) / block_ * block_;
    model_ = config.model;
    if (options.teacher && !model_.tasks.empty()) {
      throw usage_error("--teacher: draws one label, and {} has {} tasks: leave it out",
                        options.config, model_.tasks.size());
    }
    source_ = make_batch_source(config, Split::kTrain, 0, 1);
    if (options.teacher) make_teacher();
  }

  SynthReport run() {
    const std::unique_ptr<SynthSink> sink =
        criteo_ ? make_tsv_sink(options_.output)
                : make_dataset_sink(options_.output, model_, options_.samples);
    const int64_t first = options_.first_sample / block_;
    const int64_t last = (end_ + block_ - 1) / block_;
    const int threads = options_.threads > 0 ? options_.threads : usable_cpus();
    run_in_order<Work>(
        last - first, threads,
        [&](int64_t i, Work& work) {
          make_block(first + i, work);
          sink->encode(work.block);
        },
        [&](const Work& work) {
          sink->write(work.block);
          count(work);
        });
    sink->finish();
    return report(sink->bytes());
  }

 private:
  struct Work {
    SynthBlock block;
    Teacher::Scores scores;
    std::vector<float> draws;
  };

  void check() const {
    if (options_.threads < 0 || options_.threads > kMostToolThreads) {
      throw usage_error("--threads {}; expected 0 to {}", options_.threads, kMostToolThreads);
    }
    if (options_.samples < 1) throw usage_error("--samples must be at least 1");
    if (options_.first_sample < 0) throw usage_error("--first-sample must not be negative");
    // Well below the limit at which numbers of draws exceed 64 bits.
    if (options_.samples > (int64_t{1} << 40) || options_.first_sample > (int64_t{1} << 40)) {
      throw usage_error("--samples and --first-sample go up to 2^40");
    }
    if (!(options_.alpha >= 0 && options_.alpha <= 100)) {
      throw usage_error("--alpha must be from 0 to 100");
    }
    const std::string end = criteo_ ? ".tsv" : ".h5";
    if (!ends_with(options_.output, end)) {
      throw usage_error("--output {}: {} writes {} files", options_.output,
                        criteo_ ? "--criteo" : "--config", end);
    }
  }

  void make_teacher() {
    std::vector<Teacher::Feature> features;
    for (const TableConfig& table : model_.tables) {
      for (size_t f = 0; f < table.features.size(); ++f) {
        features.push_back({PowerLaw(table.rows, alpha_), alpha_});
      }
    }
    teacher_ = std::make_unique<Teacher>(*options_.teacher, model_.dense_features, features);
    SynthBlock block;
    load_block(0, block);
    teacher_->calibrate(block.unit, block.batch);
  }

  void load_block(int64_t t, SynthBlock& block) const {
    source_->load(t, block.batch);
    if (criteo_) {
      make_criteo(seed_, t * block_, block.batch, block.criteo);
      std::swap(block.unit, block.criteo.unit);
      return;
    }
    block.unit.resize(block.batch.dense.size());
    for (size_t i = 0; i < block.unit.size(); ++i) block.unit[i] = block.batch.dense[i] * 0.01f;
  }

  void make_block(int64_t t, Work& work) const {
    SynthBlock& block = work.block;
    load_block(t, block);
    block.from = std::max(options_.first_sample - t * block_, int64_t{0});
    block.to = std::min(end_ - t * block_, block_);
    if (!teacher_) return;
    teacher_->score(block.unit, block.batch, work.scores);
    work.draws.resize(static_cast<size_t>(block_));
    draw_uniform(stream_key(seed_, "synth/label"), 0, static_cast<uint64_t>(t * block_), block_,
                 1.0f, work.draws.data());
    for (size_t i = 0; i < work.draws.size(); ++i) {
      block.batch.labels[i] = work.draws[i] < work.scores.probability[i] ? 1.0f : 0.0f;
    }
  }

  void count(const Work& work) {
    for (auto i = static_cast<size_t>(work.block.from); i < static_cast<size_t>(work.block.to);
         ++i) {
      const bool one = work.block.batch.labels[i] > 0.5f;
      ones_ += one;
      if (!teacher_ || scored_.size() >= kScoredSamples) continue;
      scored_.emplace_back(work.scores.probability[i], one);
      additive_.emplace_back(work.scores.additive[i], one);
    }
  }

  SynthReport report(int64_t bytes) {
    SynthReport report;
    report.bytes = bytes;
    report.label_mean = static_cast<double>(ones_) / static_cast<double>(options_.samples);
    if (!teacher_) return report;
    const size_t scored = scored_.size();
    report.best_auc = exact_auc(scored_);
    report.additive_auc = exact_auc(additive_);
    write_teacher(report, scored);
    return report;
  }

  void write_teacher(const SynthReport& report, size_t scored) const {
    const std::string path = options_.output + ".teacher.json";
    const std::string text = fmt::format(
        "{{\"best_auc\": {:.6f}, \"auc_without_interactions\": {:.6f}, \"scored_samples\": {}, "
        "\"teacher\": {}, \"seed\": {}, \"alpha\": {}, \"samples\": {}, \"first_sample\": {}, "
        "\"label_mean\": {:.6f}}}\n",
        report.best_auc, report.additive_auc, scored, *options_.teacher, seed_, alpha_,
        options_.samples, options_.first_sample, report.label_mean);
    PartialFile partial(path);
    File file(partial.name(), File::Mode::kCreate);
    file.write(text.data(), text.size(), 0);
    partial.publish(file);
  }

  SynthOptions options_;
  bool criteo_;
  uint64_t seed_ = 1;
  double alpha_ = 0;
  int64_t block_ = 0;
  int64_t end_ = 0;
  ModelConfig model_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<Teacher> teacher_;
  int64_t ones_ = 0;
  std::vector<std::pair<float, bool>> scored_, additive_;
};

}  // namespace

SynthReport run_synth(const SynthOptions& options) { return Synth(options).run(); }

}  // namespace dlrm
