#include "model_watch.h"

#include <algorithm>
#include <filesystem>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"
#include "dlrm/train/checkpoint.h"

namespace dlrm::serve {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const std::string& name) {
  constexpr std::string_view kPrefix = "step_";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

/// The path of the best checkpoint, or the newest if none is marked as the best, with links
/// resolved. Empty if there is none.
fs::path newest(const std::string& given) {
  std::error_code error;
  const fs::path folder = fs::canonical(given, error);
  if (error || is_checkpoint(folder.filename().string())) return error ? fs::path() : folder;
  const fs::path best = fs::canonical(folder / "best", error);
  if (!error && is_checkpoint(best.filename().string())) return best;
  std::string name;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string found = entry->path().filename().string();
    if (is_checkpoint(found)) name = std::max(name, found);
  }
  return name.empty() ? fs::path() : folder / name;
}

/// Differs if the checkpoint of a step was replaced by another of the same step.
std::string identity(const fs::path& checkpoint) {
  std::error_code error;
  const auto time = fs::last_write_time(checkpoint / "index.crc", error);
  return fmt::format("{} {}", checkpoint.string(), error ? 0 : time.time_since_epoch().count());
}

}  // namespace

CheckpointWatch::CheckpointWatch(std::string given, const std::string& used)
    : given_(std::move(given)) {
  std::error_code error;
  seen_ = identity(fs::canonical(used, error));
}

std::string CheckpointWatch::newer() {
  const fs::path path = newest(given_);
  if (path.empty()) return "";
  const std::string found = identity(path);
  if (found == seen_) return "";
  seen_ = found;
  return path.string();
}

Reloader::Reloader(CheckpointWatch watch, const LoadOptions& options,
                   std::chrono::duration<double> interval, Batcher& batcher, Counters& counters)
    : watch_(std::move(watch)),
      options_(options),
      interval_(interval),
      batcher_(batcher),
      counters_(counters) {
  thread_ = background_thread([this] { run(); });
}

Reloader::~Reloader() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Reloader::run() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, interval_, [&] { return ending_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void Reloader::look() {
  const std::string folder = watch_.newer();
  if (folder.empty()) return;
  try {
    const auto comm = make_self_comm();
    if (!find_checkpoint(*comm, folder)) throw usage_error("{}: was removed", folder);
    auto model = std::make_shared<TrainedModel>(folder, options_);
    if (!model->replaces(*batcher_.model())) {
      throw usage_error(
          "{}: its features, tasks or preprocessing are not those of the model in use, with more "
          "values in dictionaries at most; start again to use it",
          folder);
    }
    batcher_.use(model);
    counters_.add_reload(true);
    log_.info("now {} (step {})", folder, model->step());
  } catch (const std::exception& error) {
    counters_.add_reload(false);
    log_.warn("{}", error.what());
  }
}

}  // namespace dlrm::serve
