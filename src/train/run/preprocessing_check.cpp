#include "preprocessing_check.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

void check_preprocessing(const Context& context, const ModelConfig& model, const Sources& sources,
                         const StartingPoint& start) {
  std::vector<std::string> features;
  for (const TableConfig& table : model.tables) {
    for (const FeatureConfig& feature : table.features) features.push_back(feature.name);
  }
  agree_on_root(context.comm, [&] {
    const std::string saved = start.path.empty() ? "" : read_preprocessing(start.path);
    FilePreprocessing trained{start.path, saved};
    if (sources.train) {
      const FilePreprocessing data = sources.train->preprocessing();
      check_extends(data, trained, features);
      if (!data.bytes.empty()) trained = data;
    }
    for (const BatchSource* const source : {sources.valid.get(), sources.test.get()}) {
      if (source == nullptr) continue;
      const FilePreprocessing data = source->preprocessing();
      if (trained.bytes.empty() || widest({trained, data}, features).file == trained.file) continue;
      context.log.warn(
          "{}: its dictionaries have values that those of {} lack: their rows were not trained "
          "(--frozen-dictionary gives such values the id 0)",
          data.file, trained.file);
    }
  });
}

}  // namespace dlrm
