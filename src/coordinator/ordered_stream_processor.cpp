#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/rules.hpp"
#include "dovetail/coordinator.hpp"
#include "dovetail/handler.hpp"

namespace dovetail {
namespace {

/// The work of one stream in its order, or one message without a stream.
using Line = std::vector<const Work*>;

std::vector<Line> lines_of(std::span<const Work> all) {
  std::vector<Line> lines;
  std::map<std::pair<WorkKind, std::string>, std::size_t> by_stream;
  for (const auto& work : all) {
    if (!work.message.stream) {
      lines.push_back({&work});
      continue;
    }
    const auto [found, is_new] =
        by_stream.try_emplace({work.queue, *work.message.stream}, lines.size());
    if (is_new) lines.emplace_back();
    lines[found->second].push_back(&work);
  }
  return lines;
}

/// Processes lines, in several threads at once. A failure to queue a result does not stop the
/// others; the first one is thrown at the end.
class Processing {
 public:
  Processing(std::vector<Line> lines, const WorkFunction& function, Coordinator& coordinator,
             const std::stop_token& stop)
      : lines_(std::move(lines)), function_(function), coordinator_(coordinator), stop_(stop) {}

  [[nodiscard]] std::size_t lines() const { return lines_.size(); }

  void work_off() {
    for (auto next = next_++; next < lines_.size(); next = next_++) process(lines_[next]);
  }

  Processed finish() {
    if (failure_) std::rethrow_exception(failure_);
    return {completed_, failed_, released_};
  }

 private:
  void process(const Line& line) {
    bool stopped = false;
    for (const auto* work : line) {
      stopped = stopped || stop_.stop_requested();
      try {
        if (stopped) {
          ++released_;
          coordinator_.queue_release(*work);
        } else {
          stopped = !succeeds(*work);
        }
      } catch (...) {  // the result may not be in the buffer: nothing of the stream may follow
        stopped = true;
        const std::scoped_lock lock{mutex_};
        if (!failure_) failure_ = std::current_exception();
      }
    }
  }

  bool succeeds(const Work& work) {
    WorkContext context{work.message.stages, stop_};
    try {
      function_(work, context);
    } catch (const PermanentFailure& failure) {
      fail(work, failure.what(), {.stages = context.stages(), .permanent = true});
      return false;
    } catch (const std::exception& failure) {
      fail(work, failure.what(), {.stages = context.stages()});
      return false;
    } catch (...) {
      fail(work, "the function threw something that is no std::exception",
           {.stages = context.stages()});
      return false;
    }
    ++completed_;
    coordinator_.queue_completion(work, context.stages());
    return true;
  }

  /// A function that throws because of the stop behaves as required: no attempt is charged.
  void fail(const Work& work, std::string_view error, const FailureOptions& options) {
    if (stop_.stop_requested() && !options.permanent) {
      ++released_;
      coordinator_.queue_release(work, options.stages);
      return;
    }
    ++failed_;
    coordinator_.queue_failure(work, error.empty() ? "failed without a text" : error, options);
  }

  const std::vector<Line> lines_;
  const WorkFunction& function_;
  Coordinator& coordinator_;
  const std::stop_token& stop_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> completed_ = 0;
  std::atomic<std::size_t> failed_ = 0;
  std::atomic<std::size_t> released_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

OrderedStreamProcessor::OrderedStreamProcessor(ProcessorOptions options) : options_(options) {
  coordinator::require_range("threads", options_.threads, 1, 1'000);
}

Processed OrderedStreamProcessor::process(std::span<const Work> work, const WorkFunction& function,
                                          Coordinator& coordinator,
                                          const std::stop_token& stop) const {
  Processing processing{lines_of(work), function, coordinator, stop};
  const auto threads = std::min(static_cast<std::size_t>(options_.threads), processing.lines());
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads; ++i)
      others.emplace_back([&processing] { processing.work_off(); });
    processing.work_off();
  }
  return processing.finish();
}

}  // namespace dovetail
