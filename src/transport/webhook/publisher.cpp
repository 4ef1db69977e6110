#include <curl/curl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <stop_token>

#include "dovetail/webhook.hpp"
#include "transport/webhook/endpoint.hpp"
#include "transport/webhook/request.hpp"

namespace dovetail {
namespace {

using std::chrono::milliseconds;
using transport::webhook::Endpoint;
using transport::webhook::Request;

using MultiHandle = std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)>;

/// A call notices a slot that another call has freed after this time.
constexpr int longest_poll_ms = 100;

WallTime wall_now() {
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

milliseconds until(MonoTime deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds{0});
}

/// The requests that all calls together may have under way.
class Slots {
 public:
  explicit Slots(std::size_t count) : free_(count) {}

  [[nodiscard]] bool try_take() {
    const std::lock_guard lock(mutex_);
    if (free_ == 0) return false;
    --free_;
    return true;
  }
  void give_back() {
    const std::lock_guard lock(mutex_);
    ++free_;
    changed_.notify_all();
  }
  void wait(const TransportCall& call) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, call.stop, call.deadline, [this] { return free_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t free_;
};

/// Multi-handles of libcurl with their connections. Each call uses one.
class MultiHandles {
 public:
  [[nodiscard]] MultiHandle take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto handle = std::move(idle_.back());
        idle_.pop_back();
        return handle;
      }
    }
    MultiHandle handle(curl_multi_init(), &curl_multi_cleanup);
    if (!handle) throw std::runtime_error("libcurl could not be initialised");
    return handle;
  }
  void give_back(MultiHandle handle) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(handle));
  }
  void clear() noexcept {
    const std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<MultiHandle> idle_;
};

/// Requests under way at the same time. Those that are left at its end are ended.
class Transfers {
 public:
  Transfers(CURLM* multi, Slots& slots, const TransportCall& call)
      : multi_(multi), slots_(slots), call_(call), wake_(call.stop, Wake{multi}) {}
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers() {
    for (const auto& [handle, running] : running_) {
      curl_multi_remove_handle(multi_, handle);
      slots_.give_back();
    }
  }

  [[nodiscard]] std::size_t size() const { return running_.size(); }
  [[nodiscard]] bool is_over() const {
    return call_.stop.stop_requested() || until(call_.deadline) == milliseconds{0};
  }

  /// Starts the request that `make()` returns, unless all slots are taken.
  template <class Make>
  [[nodiscard]] bool try_start(std::size_t index, const Make& make) {
    if (!slots_.try_take()) return false;
    try {
      add(index, make());
    } catch (...) {
      slots_.give_back();
      throw;
    }
    return true;
  }

  /// Waits for progress, and calls `ended(index, request, code)` for each request that has ended.
  template <class Ended>
  void advance(const Ended& ended) {
    int active = 0;
    const auto code = curl_multi_perform(multi_, &active);
    if (code != CURLM_OK) throw std::runtime_error(curl_multi_strerror(code));
    const auto before = running_.size();
    int waiting = 0;
    while (const auto* const message = curl_multi_info_read(multi_, &waiting)) {
      if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result, ended);
    }
    if (running_.size() != before || running_.empty()) return;
    const auto limit = std::min<std::int64_t>(until(call_.deadline).count(), longest_poll_ms);
    curl_multi_poll(multi_, nullptr, 0, static_cast<int>(limit), nullptr);
  }

 private:
  struct Running {
    std::size_t index;
    std::unique_ptr<Request> request;
  };
  struct Wake {
    CURLM* multi;
    void operator()() const { curl_multi_wakeup(multi); }
  };

  void add(std::size_t index, std::unique_ptr<Request> request) {
    CURL* const handle = request->handle();
    const auto code = curl_multi_add_handle(multi_, handle);
    if (code != CURLM_OK) throw std::runtime_error(curl_multi_strerror(code));
    running_.emplace(handle, Running{index, std::move(request)});
  }

  template <class Ended>
  void finish(CURL* handle, CURLcode code, const Ended& ended) {
    curl_multi_remove_handle(multi_, handle);
    const auto node = running_.extract(handle);
    if (node.empty()) return;
    slots_.give_back();
    ended(node.mapped().index, *node.mapped().request, code);
  }

  CURLM* multi_;
  Slots& slots_;
  const TransportCall& call_;
  std::stop_callback<Wake> wake_;
  std::map<CURL*, Running> running_;
};

class WebhookPublisher final : public Publisher {
 public:
  explicit WebhookPublisher(WebhookOptions options)
      : endpoint_(std::move(options)), slots_(endpoint_.parallel) {}

  [[nodiscard]] std::string kind() const override { return "webhook"; }
  [[nodiscard]] std::string address() const override { return endpoint_.shown; }

  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& call) override {
    std::vector<PublishOutcome> outcomes(messages.size());
    auto multi = multis_.take();
    send(multi.get(), messages, call, outcomes);
    multis_.give_back(std::move(multi));
    explain_missing(outcomes);
    return outcomes;
  }

  void probe(const TransportCall& call) override {
    if (const auto reason = blocked()) throw std::runtime_error(*reason);
    std::string problem = "no connection to " + endpoint_.shown + " in time";
    const auto multi = multis_.take();
    Transfers transfers(multi.get(), slots_, call);
    const auto make = [&] { return std::make_unique<Request>(endpoint_, limit_of(call)); };
    while (!transfers.is_over() && !transfers.try_start(0, make)) slots_.wait(call);
    while (transfers.size() > 0 && !transfers.is_over()) {
      transfers.advance([&](std::size_t /*index*/, const Request& request, CURLcode code) {
        problem = request.connection_problem(code).value_or("");
      });
    }
    if (!problem.empty()) throw std::runtime_error(problem);
  }

  [[nodiscard]] std::optional<std::string> blocked() const override {
    if (!is_disabled_) return std::nullopt;
    return endpoint_.shown +
           " answered 410: the endpoint is disabled until the process restarts or the route is "
           "made anew";
  }

  void close() noexcept override { multis_.clear(); }

 private:
  void send(CURLM* multi, std::span<const Message> messages, const TransportCall& call,
            std::vector<PublishOutcome>& outcomes) {
    const auto limit = limit_of(call);
    Transfers transfers(multi, slots_, call);
    std::size_t next = 0;
    while (!transfers.is_over()) {
      const auto make = [&] { return request_for(messages[next], limit, call); };
      while (next < messages.size() && !is_disabled_ && transfers.try_start(next, make)) ++next;
      if (transfers.size() == 0 && (next == messages.size() || is_disabled_)) return;
      if (transfers.size() == 0) {
        slots_.wait(call);  // other calls have them all
        continue;
      }
      transfers.advance([&](std::size_t index, const Request& request, CURLcode code) {
        outcomes[index] = request.outcome(code, wall_now());
        if (outcomes[index].result == PublishResult::refused) is_disabled_ = true;  // only 410
      });
    }
  }

  /// A bit less than the time of the call: a request that gets no answer ends by itself, and
  /// counts. One that starts later may end with the call, and does not count.
  [[nodiscard]] milliseconds limit_of(const TransportCall& call) const {
    return std::min(endpoint_.timeout, until(call.deadline) * 19 / 20);
  }

  [[nodiscard]] std::unique_ptr<Request> request_for(const Message& message, milliseconds limit,
                                                     const TransportCall& call) const {
    const auto source = call.source.empty() ? std::string_view{"dovetail"} : call.source;
    return std::make_unique<Request>(endpoint_, limit, message, source);
  }

  /// Messages that were not sent, or whose answer did not come before the end of the call.
  void explain_missing(std::vector<PublishOutcome>& outcomes) const {
    const auto reason =
        blocked().value_or(endpoint_.shown + " has not answered before the end of the call");
    for (auto& each : outcomes) {
      if (each.result == PublishResult::unavailable && each.reason.empty()) each.reason = reason;
    }
  }

  const Endpoint endpoint_;
  Slots slots_;
  MultiHandles multis_;
  std::atomic<bool> is_disabled_{false};
};

}  // namespace

std::shared_ptr<Publisher> webhook_publisher(WebhookOptions options) {
  return std::make_shared<WebhookPublisher>(std::move(options));
}

}  // namespace dovetail
