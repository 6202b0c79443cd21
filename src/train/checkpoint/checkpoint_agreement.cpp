#include "checkpoint_agreement.h"

#include <exception>

#include "dlrm/core/host_name.h"

namespace dlrm {

namespace {

struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string text;
};

Outcome run(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    return {ExitCode::kFailure, error.what()};
  }
}

}  // namespace

void agree(Communicator& comm, const std::function<void()>& work) {
  const Outcome mine = run(work);
  const std::vector<int> codes = comm.allgather(static_cast<int>(mine.code));
  int first = 0;
  while (first < comm.size() && codes[static_cast<size_t>(first)] == 0) ++first;
  if (first == comm.size()) return;
  int64_t length = static_cast<int64_t>(mine.text.size());
  comm.broadcast(&length, sizeof length, first);
  std::string text = comm.rank() == first ? mine.text : std::string();
  text.resize(static_cast<size_t>(length));
  comm.broadcast(text.data(), length, first);
  throw Error(static_cast<ExitCode>(codes[static_cast<size_t>(first)]), text);
}

void agree_on_root(Communicator& comm, const std::function<void()>& work) {
  agree(comm, [&] {
    if (comm.rank() == 0) work();
  });
}

std::string broadcast_text(Communicator& comm, const std::string& text) {
  int64_t length = static_cast<int64_t>(text.size());
  comm.broadcast(&length, sizeof length, 0);
  std::string result = comm.rank() == 0 ? text : std::string();
  result.resize(static_cast<size_t>(length));
  comm.broadcast(result.data(), length, 0);
  return result;
}

std::vector<std::string> gather_texts(Communicator& comm, const std::string& text) {
  std::vector<int64_t> counts;
  const std::vector<char> all =
      comm.allgatherv(View<const char>(text.data(), text.size()), &counts);
  std::vector<std::string> texts;
  auto at = all.begin();
  for (const int64_t count : counts) {
    texts.emplace_back(at, at + count);
    at += count;
  }
  return texts;
}

std::string rank_and_host(const Communicator& comm) {
  return fmt::format("rank {} on host {}", comm.rank(), host_name());
}

}  // namespace dlrm
