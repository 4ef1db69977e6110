#include "transport/amqp/connection.hpp"

#include <proton/connection_options.hpp>
#include <proton/error_condition.hpp>
#include <proton/transport.hpp>
#include <proton/work_queue.hpp>
#include <stdexcept>

#include "transport/amqp/broker.hpp"

namespace dovetail::transport::amqp {
namespace {

constexpr std::chrono::seconds longest_farewell{1};

std::string words_of(const proton::error_condition& error) {
  return error.empty() ? "the broker closed the connection" : error.what();
}

}  // namespace

Connection::Connection(const AmqpOptions& options) : options_(options), container_(*this) {}

void Connection::open(const TransportCall& call) {
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, call.stop, call.deadline,
                      [this] { return work_queue_ != nullptr || lost_; });
  if (lost_) throw std::runtime_error(*lost_);
  if (work_queue_ == nullptr)
    throw std::runtime_error("the broker did not accept the connection in time");
}

std::optional<std::string> Connection::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void Connection::run() noexcept {
  try {
    container_.run();
    lose("the connection has ended");
  } catch (const std::exception& error) {
    lose(error.what());
  }
}

void Connection::end() noexcept {
  if (!thread_.joinable()) return;
  // The broker gets what was sent before, such as the last acknowledgements.
  if (post([this] { connection_.close(); })) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest_farewell, [this] { return lost_.has_value(); });
  }
  container_.stop();
  thread_.join();
}

bool Connection::post(const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  return !lost_ && work_queue_ != nullptr && work_queue_->add(work);
}

void Connection::lose(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (lost_) return;
  lost_ = parse_broker_url(options_.url).shown() + ": " + reason;
  changed_.notify_all();
}

void Connection::on_container_start(proton::container& container) {
  container.connect(parse_broker_url(options_.url).address(), connection_options(options_));
}

void Connection::on_connection_open(proton::connection& connection) {
  connection_ = connection;
  on_ready(connection);
  const std::lock_guard lock(mutex_);
  work_queue_ = &connection.work_queue();
  changed_.notify_all();
}

void Connection::on_connection_close(proton::connection& connection) {
  lose(words_of(connection.error()));
}

void Connection::on_connection_error(proton::connection& connection) {
  lose(words_of(connection.error()));
}

void Connection::on_transport_error(proton::transport& transport) {
  lose(words_of(transport.error()));
}

void Connection::on_transport_close(proton::transport& transport) {
  lose(words_of(transport.error()));
}

void Connection::on_error(const proton::error_condition& error) {
  lose(words_of(error));
}

}  // namespace dovetail::transport::amqp
