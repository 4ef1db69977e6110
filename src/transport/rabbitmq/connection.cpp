#include "transport/rabbitmq/connection.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace dovetail::transport::rabbitmq {
namespace {

/// How often an idle connection looks after its heartbeats.
constexpr int idle_milliseconds = 200;
/// How long the broker has time for its goodbye.
constexpr std::chrono::milliseconds goodbye_time{1'000};

bool is_content(const amqp_frame_t& frame) {
  return frame.frame_type != AMQP_FRAME_METHOD ||
         frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD ||
         frame.payload.method.id == AMQP_BASIC_RETURN_METHOD;
}

}  // namespace

Connection::Connection(StatePtr state)
    : state_(std::move(state)),
      socket_(::dup(amqp_get_sockfd(state_.get()))),
      wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Connection::~Connection() {
  end();
  ::close(socket_);
  ::close(wake_up_);
}

bool Connection::is_open() const {
  std::lock_guard lock(mutex_);
  return !closing_ && !ending_ && !ended_;
}

std::string Connection::end_reason() const {
  std::lock_guard lock(mutex_);
  return end_reason_.empty() ? "the connection was lost" : end_reason_;
}

std::optional<std::string> Connection::blocked() const {
  std::lock_guard lock(mutex_);
  return blocked_;
}

void Connection::start() {
  thread_ = std::thread([this] { loop(); });
}

void Connection::end() noexcept {
  if (thread_.joinable()) {
    std::unique_lock lock(mutex_);
    closing_ = true;
    ::eventfd_write(wake_up_, 1);
    changed_.wait_for(lock, 2 * goodbye_time, [&] { return ended_; });
  }
  abort("the connection was closed");
  if (thread_.joinable()) thread_.join();
}

void Connection::abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (end_reason_.empty()) end_reason_ = reason;
  ending_ = true;
  ::shutdown(socket_, SHUT_RDWR);
  ::eventfd_write(wake_up_, 1);
}

bool Connection::run(const std::function<void()>& job, const std::function<bool()>& done,
                     const TransportCall& call) {
  std::unique_lock lock(mutex_);
  job_ = job;
  ::eventfd_write(wake_up_, 1);
  changed_.wait_until(lock, call.stop, call.deadline,
                      [&] { return ended_ || (!job_ && !in_job_ && done()); });
  const bool finished = finish(lock, done);
  on_leave();
  return finished;
}

bool Connection::finish(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  if (std::exchange(job_, nullptr)) return false;
  if (in_job_) {
    lock.unlock();
    abort("the broker did not read what was sent in time");
    lock.lock();
    changed_.wait(lock, [&] { return !in_job_; });
  }
  return done();
}

void Connection::loop() {
  try {
    while (is_open()) {
      run_jobs();
      read_frames();
      wait_for_work();
    }
    say_goodbye();
  } catch (const std::exception& failure) {
    std::lock_guard lock(mutex_);
    if (end_reason_.empty()) end_reason_ = failure.what();
  }
  std::lock_guard lock(mutex_);
  ended_ = true;
  job_ = nullptr;
  in_job_ = false;
  ::shutdown(socket_, SHUT_RDWR);
  changed_.notify_all();
}

/// Without it, the broker would log that its client was lost.
void Connection::say_goodbye() {
  {
    std::lock_guard lock(mutex_);
    if (ending_) return;
  }
  const auto time = timeval_of(goodbye_time);
  amqp_set_rpc_timeout(state(), &time);
  amqp_connection_close(state(), AMQP_REPLY_SUCCESS);
}

void Connection::wait_for_work() {
  {
    std::lock_guard lock(mutex_);
    if (job_ || has_more_work()) return;
  }
  if (amqp_frames_enqueued(state()) != 0 || amqp_data_in_buffer(state()) != 0) return;
  std::array<pollfd, 2> sources{{{socket_, POLLIN, 0}, {wake_up_, POLLIN, 0}}};
  ::poll(sources.data(), sources.size(), idle_milliseconds);
  eventfd_t count = 0;
  ::eventfd_read(wake_up_, &count);
}

void Connection::run_jobs() {
  std::function<void()> job;
  {
    std::lock_guard lock(mutex_);
    job.swap(job_);
    if (!job && has_more_work()) job = [this] { go_on(); };
    in_job_ = static_cast<bool>(job);
  }
  if (!job) return;
  job();
  std::lock_guard lock(mutex_);
  in_job_ = false;
  changed_.notify_all();
}

void Connection::read_frames() {
  while (read_frame()) {
  }
}

/// Returns false if there is no frame. Sends a heartbeat if one is due.
bool Connection::read_frame() {
  amqp_frame_t frame{};
  const timeval at_once{};
  const auto status = amqp_simple_wait_frame_noblock(state(), &frame, &at_once);
  if (status == AMQP_STATUS_TIMEOUT) return false;
  require(status, "the connection was lost");
  handle(frame);
  amqp_maybe_release_buffers(state());
  return true;
}

void Connection::handle(const amqp_frame_t& frame) {
  if (is_content(frame)) {
    if (const auto content = content_.take(frame)) on_content(*content);
  } else if (!handle_connection_method(frame.payload.method)) {
    on_method(frame.payload.method);
  }
}

bool Connection::handle_connection_method(const amqp_method_t& method) {
  if (method.id == AMQP_CONNECTION_CLOSE_METHOD) {
    const auto& close = *static_cast<amqp_connection_close_t*>(method.decoded);
    throw std::runtime_error(std::string{view_of(close.reply_text)});
  }
  std::lock_guard lock(mutex_);
  if (method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
    blocked_ = view_of(static_cast<amqp_connection_blocked_t*>(method.decoded)->reason);
  } else if (method.id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
    blocked_.reset();
  } else {
    return false;
  }
  changed_.notify_all();
  return true;
}

}  // namespace dovetail::transport::rabbitmq
