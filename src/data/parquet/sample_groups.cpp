#include "sample_groups.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

using nlohmann::json;

template <class T>
const T* take(const std::byte*& at, const json& bytes, size_t& column) {
  const auto* found = reinterpret_cast<const T*>(at);
  at += bytes.at(column++).get<int64_t>();
  return found;
}

}  // namespace

SampleGroups::SampleGroups(const std::string& schema, const std::string& dictionary,
                           const std::vector<std::string>& paths)
    : arguments_{"--groups", schema, dictionary} {
  arguments_.insert(arguments_.end(), paths.begin(), paths.end());
  auto process = start();
  try {
    header_ = read_header(*process);
  } catch (const PythonProcess::Ended& ended) {
    throw usage_error("data.train, data.valid and data.test of Parquet files: {}", ended.how);
  }
  idle_.push_back(std::move(process));
}

std::unique_ptr<PythonProcess> SampleGroups::start() const {
  return std::make_unique<PythonProcess>("dlrm.importing", arguments_);
}

GroupsHeader SampleGroups::read_header(PythonProcess& process) const {
  const json answer = process.read_answer();
  GroupsHeader header;
  answer.at("files").get_to(header.files);
  answer.at("rows").get_to(header.rows);
  answer.at("file_of").get_to(header.file_of);
  answer.at("first").get_to(header.first);
  answer.at("labels").get_to(header.labels);
  answer.at("dense").get_to(header.dense);
  answer.at("weighted").get_to(header.weighted);
  for (const json& feature : answer.at("features")) {
    GroupsHeader::Feature& to = header.features.emplace_back();
    feature.at("name").get_to(to.name);
    feature.at("rows").get_to(to.rows);
    feature.at("bytes").get_to(to.bytes);
    feature.at("lists").get_to(to.lists);
  }
  header.preprocessing.resize(answer.at("preprocessing").get<size_t>());
  process.read(reinterpret_cast<std::byte*>(header.preprocessing.data()),
               header.preprocessing.size());
  return header;
}

std::shared_ptr<const SampleGroup> SampleGroups::read(int64_t group) {
  std::unique_ptr<PythonProcess> process;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      process = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  try {
    if (!process) {
      process = start();
      read_header(*process);
    }
    auto result = ask(*process, group);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(process));
    return result;
  } catch (const PythonProcess::Ended& ended) {
    const auto file = static_cast<size_t>(header_.file_of[static_cast<size_t>(group)]);
    throw usage_error("{}: {}, which read it: is the file damaged, or memory short?",
                      header_.files[file], ended.how);
  }
}

std::shared_ptr<const SampleGroup> SampleGroups::ask(PythonProcess& process, int64_t group) const {
  process.write(std::to_string(group) + "\n");
  const json bytes = process.read_answer();
  auto result = std::make_shared<SampleGroup>();
  size_t all = 0;
  for (const json& column : bytes) all += column.get<size_t>();
  result->bytes = std::make_unique_for_overwrite<std::byte[]>(all);
  process.read(result->bytes.get(), all);
  const std::byte* at = result->bytes.get();
  size_t column = 0;
  result->labels = take<float>(at, bytes, column);
  if (header_.weighted) result->weights = take<float>(at, bytes, column);
  result->dense = take<float>(at, bytes, column);
  for (const GroupsHeader::Feature& feature : header_.features) {
    SampleGroup::Feature& to = result->features.emplace_back();
    to.ids = take<std::byte>(at, bytes, column);
    if (feature.lists) to.offsets = take<int64_t>(at, bytes, column);
  }
  return result;
}

/// True if this thread has to read the group.
bool SampleGroups::claim(int64_t group) {
  const std::lock_guard lock(mutex_);
  return entries_.try_emplace(group).second;
}

void SampleGroups::fill(int64_t group) {
  Entry entry;
  try {
    entry.group = read(group);
  } catch (...) {
    entry.error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    entries_[group] = std::move(entry);
  }
  ready_.notify_all();
}

void SampleGroups::prepare(int64_t group) {
  if (claim(group)) fill(group);
}

std::vector<std::shared_ptr<const SampleGroup>> SampleGroups::get(View<const int64_t> groups) {
  for (const int64_t group : groups) prepare(group);
  std::vector<std::shared_ptr<const SampleGroup>> result;
  std::unique_lock lock(mutex_);
  for (const int64_t group : groups) {
    ready_.wait(lock, [&] {
      const auto found = entries_.find(group);
      return found == entries_.end() || found->second.group || found->second.error;
    });
    const auto found = entries_.find(group);
    if (found == entries_.end()) {  // forgotten meanwhile
      lock.unlock();
      result.push_back(get({&group, 1})[0]);
      lock.lock();
      continue;
    }
    if (found->second.error) std::rethrow_exception(found->second.error);
    result.push_back(found->second.group);
  }
  return result;
}

void SampleGroups::keep(View<const int64_t> groups) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) {
    const bool reading = !entry.second.group && !entry.second.error;
    return !reading && !std::binary_search(groups.begin(), groups.end(), entry.first);
  });
}

}  // namespace dlrm
