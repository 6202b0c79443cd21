#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace dlrm {

/// Options of `dlrm-data synth`.
struct SynthOptions {
  int64_t samples = 0;
  int64_t first_sample = 0;  ///< number of the first sample in the infinite stream
  std::string output;        ///< .h5 or .tsv
  bool criteo = false;       ///< Criteo's format; otherwise that of `config`
  std::string config;        ///< tables, features and hotness
  double alpha = 0;          ///< of the ids' power law, if has_alpha
  bool has_alpha = false;    ///< if false, the config's alpha, or 1.05
  std::optional<uint64_t> teacher;
  uint64_t seed = 1;
  bool has_seed = false;  ///< if false, the config's seed, or 1
  int threads = 0;        ///< 0: the number of usable CPUs
};

/// The results of a run.
struct SynthReport {
  int64_t bytes = 0;
  double label_mean = 0;
  double best_auc = 0;      ///< AUC of the teacher's own probabilities; 0 without a teacher
  double additive_auc = 0;  ///< AUC of the teacher's score without its interactions
};

/// Writes the samples and, with a teacher, OUTPUT.teacher.json. The result is a pure function of
/// the options, except threads. Throws usage_error and run_error.
SynthReport run_synth(const SynthOptions& options);

}  // namespace dlrm
