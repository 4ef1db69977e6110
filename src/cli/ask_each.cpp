#include "cli/ask_each.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <thread>

namespace dovetail::cli {
namespace {

using AskClock = std::chrono::steady_clock;

constexpr std::size_t asked_at_once = 16;

/// Shared with the threads, which may outlive run_tasks().
struct EndedTasks {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::size_t> indexes;
};

struct RunningTask {
  std::size_t index;
  std::optional<AskClock::time_point> give_up_at;
};

bool& threads_left_behind() {
  static bool left_behind = false;
  return left_behind;
}

void start_task(const std::shared_ptr<EndedTasks>& ended, std::size_t index,
                std::function<void()> task) {
  std::thread([ended, index, task = std::move(task)] {
    task();
    const std::lock_guard lock(ended->mutex);
    ended->indexes.push_back(index);
    ended->changed.notify_one();
  }).detach();
}

/// Returns the indexes of ended tasks. Returns none if a task exceeded its time limit.
std::deque<std::size_t> wait_for_tasks(EndedTasks& ended,
                                       std::optional<AskClock::time_point> until) {
  std::unique_lock lock(ended.mutex);
  const auto some = [&] { return !ended.indexes.empty(); };
  if (until) {
    ended.changed.wait_until(lock, *until, some);
  } else {
    ended.changed.wait(lock, some);
  }
  return std::exchange(ended.indexes, {});
}

}  // namespace

void run_tasks(const std::vector<std::function<void()>>& tasks,
               std::optional<std::chrono::milliseconds> limit,
               const std::function<void(std::size_t, bool)>& ended) {
  const auto done = std::make_shared<EndedTasks>();
  std::deque<RunningTask> running;  // the first one was started first
  std::size_t next = 0;
  while (next < tasks.size() || !running.empty()) {
    for (; next < tasks.size() && running.size() < asked_at_once; ++next) {
      std::optional<AskClock::time_point> give_up_at;
      if (limit) give_up_at = AskClock::now() + *limit;
      running.push_back({next, give_up_at});
      start_task(done, next, tasks[next]);
    }
    for (const auto index : wait_for_tasks(*done, running.front().give_up_at)) {
      // An abandoned task may end later. It is not reported again.
      if (std::erase_if(running, [&](const auto& each) { return each.index == index; }) > 0) {
        ended(index, true);
      }
    }
    while (!running.empty() && running.front().give_up_at <= AskClock::now() && limit) {
      threads_left_behind() = true;
      ended(running.front().index, false);
      running.pop_front();
    }
  }
}

std::string no_answer_text(std::chrono::milliseconds limit) {
  return "it gave no answer within " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) +
         " seconds; the others were asked without it";
}

void finish_group(const Globals& globals,
                  const std::vector<std::pair<std::string, DatabaseFailure>>& failures) {
  std::cout.flush();
  for (const auto& [key, failure] : failures) {
    std::cerr << "dovetail: " << key << " FAILED: " << failure.error << '\n';
  }
  if (std::ranges::any_of(failures, [](const auto& each) { return each.second.needs_migration; })) {
    std::cerr << migrate_hint(globals) << '\n';
  }
  std::cerr.flush();
  if (threads_left_behind()) std::_Exit(1);
  if (!failures.empty()) throw ExitCode{1};
}

}  // namespace dovetail::cli
