// One exchange of a connection with the server, for connection.cpp.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>

#include "dovetail/error.hpp"
#include "postgres/connection.hpp"

namespace dovetail::postgres {

/// The time limit for the answer to a ROLLBACK, and to a COMMIT after a stop request.
inline constexpr std::chrono::seconds answer_grace{2};
/// The time limit for the answer to a cancel request.
inline constexpr std::chrono::seconds cancel_grace{1};

/// A cancel request, sent by its own thread: PQcancel() has no time limit, and a frozen server
/// never answers it.
class Connection::CancelRequest {
 public:
  explicit CancelRequest(PGconn* connection) {
    std::unique_ptr<PGcancel, decltype(&PQfreeCancel)> handle{PQgetCancel(connection),
                                                              &PQfreeCancel};
    if (!handle) return;
    std::promise<void> promise;
    auto answered = promise.get_future();
    try {
      std::thread([handle = std::move(handle), promise = std::move(promise)]() mutable {
        std::array<char, 256> message{};
        PQcancel(handle.get(), message.data(), static_cast<int>(message.size()));
        promise.set_value();
      }).detach();
      answered_ = std::move(answered);
      // Without a thread, the connection is abandoned after the same time instead.
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
    }
  }
  /// True once the server has processed the request. Until then it may hit the next statement of
  /// the connection.
  [[nodiscard]] bool answered_by(std::chrono::steady_clock::time_point time) const {
    return !answered_.valid() || answered_.wait_until(time) == std::future_status::ready;
  }

 private:
  std::future<void> answered_;
};

/// One exchange with the server. It waits for the socket, and turns a stop request into a cancel
/// request.
class Connection::Call {
 public:
  using AtStop = Command::AtStop;

  Call(Connection& owner, const std::stop_token& stop, AtStop at_stop = AtStop::cancel)
      : owner_(owner), connection_(owner.connection_), at_stop_(at_stop) {
    owner.process_.require();
    if (owner.broken_) {
      throw Error({ErrorKind::connection_lost, "", "send"}, "the connection was abandoned before");
    }
    if (at_stop_ == AtStop::hurry) limit_wait();
    if (!stop.stop_possible() || deadline_) return;
    if (stop.stop_requested()) {
      if (at_stop_ == AtStop::cancel) {
        throw Error({ErrorKind::cancelled, "", "send"}, "stopped before it was sent");
      }
      limit_wait();
      return;
    }
    auto& fd = owner.wake_fd_;
    if (fd < 0) fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    stop_ = stop;
    wake_.emplace(stop, Wake{fd});
  }
  ~Call() {
    if (wake_) {
      wake_.reset();
      std::uint64_t pending = 0;
      if (stop_.stop_requested()) {
        [[maybe_unused]] const auto drained = ::read(owner_.wake_fd_, &pending, sizeof pending);
      }
    }
    if (cancel_ && !cancel_->answered_by(*deadline_)) owner_.broken_ = true;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Waits for any of `events`. Returns false if the server did not answer within the time that a
  /// stop request leaves.
  bool wait(short events) {
    std::array<pollfd, 2> fds{{{PQsocket(connection_), events, 0},
                               {wake_ && !deadline_ ? owner_.wake_fd_ : -1, POLLIN, 0}}};
    for (;;) {
      const int ready = ::poll(fds.data(), fds.size(), milliseconds_left());
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        owner_.abandoned_ = ready == 0;
        return false;
      }
      if (fds[1].revents != 0) {
        limit_wait();
        if (at_stop_ == AtStop::cancel) cancel_.emplace(connection_);
        fds[1].fd = -1;
        if (fds[0].revents == 0) continue;
      }
      return true;
    }
  }

  bool flush() {
    for (;;) {
      const int left = PQflush(connection_);
      if (left <= 0) return left == 0;
      if (!wait(POLLIN | POLLOUT) || PQconsumeInput(connection_) == 0) return false;
    }
  }

  bool wait_until_result_is_there() {
    while (PQisBusy(connection_) != 0) {
      if (!wait(POLLIN) || PQconsumeInput(connection_) == 0) return false;
    }
    return true;
  }

 private:
  struct Wake {
    int fd;
    void operator()() const {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
    }
  };
  void limit_wait() {
    deadline_ = std::chrono::steady_clock::now() +
                (at_stop_ == AtStop::cancel ? cancel_grace : answer_grace);
  }
  [[nodiscard]] int milliseconds_left() const {
    if (!deadline_) return -1;
    const auto left = *deadline_ - std::chrono::steady_clock::now();
    return static_cast<int>(
        std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }

  Connection& owner_;
  PGconn* connection_;
  AtStop at_stop_;
  std::stop_token stop_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<CancelRequest> cancel_;
  std::optional<std::stop_callback<Wake>> wake_;
};

}  // namespace dovetail::postgres
