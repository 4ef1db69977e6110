#include "group/discovery_calls.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "dovetail/error.hpp"

namespace dovetail::group {
namespace {

[[noreturn]] void fail_call(const std::string& problem) {
  throw Error({.kind = ErrorKind::cancelled, .native_code = {}, .statement = "discovery"}, problem);
}

}  // namespace

struct DiscoveryCalls::Call {
  Ask ask;
  std::stop_source stop;
  bool begun = false;
  bool ended = false;
  std::exception_ptr error;
  std::vector<DatabaseEntry> entries;
  bool has_changed = false;
};

struct DiscoveryCalls::Shared {
  explicit Shared(std::shared_ptr<DatabaseDiscovery> its_source) : source(std::move(its_source)) {}

  const std::shared_ptr<DatabaseDiscovery> source;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::shared_ptr<Call> current;  // a call that has not ended
  bool has_thread = false;
  bool closed = false;
};

DiscoveryCalls::DiscoveryCalls(std::shared_ptr<DatabaseDiscovery> source,
                               std::chrono::milliseconds limit)
    : shared_(std::make_shared<Shared>(std::move(source))), limit_(limit) {}

DiscoveryCalls::~DiscoveryCalls() {
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->changed.notify_all();
}

void DiscoveryCalls::run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  const auto has_work = [&] {
    return shared->closed || (shared->current && !shared->current->begun);
  };
  for (;;) {
    shared->changed.wait(lock, has_work);
    if (shared->closed) return;
    const auto call = shared->current;
    call->begun = true;
    lock.unlock();
    try {
      call->ask(*shared->source, *call);
    } catch (...) {
      call->error = std::current_exception();
    }
    lock.lock();
    call->ended = true;
    shared->current.reset();
    shared->changed.notify_all();
  }
}

std::shared_ptr<DiscoveryCalls::Call> DiscoveryCalls::make(Ask ask, const std::stop_token& stop) {
  auto call = std::make_shared<Call>();
  call->ask = std::move(ask);
  const auto deadline = std::chrono::steady_clock::now() + limit_;
  std::unique_lock lock(shared_->mutex);
  const auto is_free = [&] { return !shared_->current || shared_->current->stop.stop_requested(); };
  static_cast<void>(shared_->changed.wait_until(lock, stop, deadline, is_free));
  if (stop.stop_requested()) fail_call("the group is being stopped");
  if (shared_->current) fail_call("an earlier call of the discovery has not returned yet");
  if (!shared_->has_thread) {
    std::thread([shared = shared_] { run(shared); }).detach();
    shared_->has_thread = true;
  }
  shared_->current = call;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_until(lock, stop, deadline, [&] { return call->ended; });
  lock.unlock();
  if (ended) return call;
  call->stop.request_stop();
  fail_call(stop.stop_requested()
                ? std::string{"the group is being stopped"}
                : "the discovery took longer than " + std::to_string(limit_.count()) + " ms");
}

std::vector<DatabaseEntry> DiscoveryCalls::find(const std::stop_token& stop) {
  const auto call = make(
      [](DatabaseDiscovery& source, Call& one) { one.entries = source.find(one.stop.get_token()); },
      stop);
  if (call->error) std::rethrow_exception(call->error);
  return std::move(call->entries);
}

bool DiscoveryCalls::has_changed(const std::stop_token& stop) {
  const auto call = make(
      [](DatabaseDiscovery& source, Call& one) { one.has_changed = source.has_changed(); }, stop);
  if (call->error) std::rethrow_exception(call->error);
  return call->has_changed;
}

bool DiscoveryCalls::wait_for_end(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_until(lock, deadline, [&] { return !shared_->current; });
}

}  // namespace dovetail::group
