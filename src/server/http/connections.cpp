#include "server/http/connections.hpp"

#include <algorithm>
#include <vector>

namespace dovetail::server::http {

bool Connections::make_room(const std::string& address) {
  const auto same = by_address_.find(address);
  if (same != by_address_.end() && same->second >= limits_.max_connections_per_address &&
      !close_waiting_of(address)) {
    return false;
  }
  return all_.size() < limits_.max_connections || close_longest_waiting();
}

bool Connections::close_longest_waiting() {
  if (waiting_.empty()) return false;
  waiting_.front()->close();
  return true;
}

bool Connections::close_waiting_of(const std::string& address) {
  const auto found = std::ranges::find(waiting_, address, &Connection::address_);
  if (found == waiting_.end()) return false;
  (*found)->close();
  return true;
}

void Connections::add(std::shared_ptr<Connection> connection) {
  ++by_address_[connection->address_];
  auto* key = connection.get();
  all_.emplace(key, std::move(connection));
  set_count();
}

void Connections::remove(Connection& connection) {
  note_busy(connection);
  streams_.erase(&connection);
  stream_count_ = streams_.size();
  const auto same = by_address_.find(connection.address_);
  if (--same->second == 0) by_address_.erase(same);
  all_.erase(&connection);
  set_count();
}

void Connections::note_waiting(Connection& connection) {
  note_busy(connection);
  connection.place_ = waiting_.insert(waiting_.end(), &connection);
}

void Connections::note_busy(Connection& connection) {
  if (connection.place_) waiting_.erase(*connection.place_);
  connection.place_.reset();
}

bool Connections::begin_body() {
  if (bodies_ >= limits_.max_bodies) return false;
  ++bodies_;
  return true;
}

bool Connections::begin_stream(Connection& connection) {
  if (streams_.size() >= limits_.max_event_streams) return false;
  streams_.insert(&connection);
  stream_count_ = streams_.size();
  return true;
}

void Connections::broadcast(const std::shared_ptr<const std::string>& event) {
  const std::vector<Connection*> all(streams_.begin(), streams_.end());  // one may be closed
  for (auto* connection : all) connection->send_event(event);
}

void Connections::finish_all() {
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [key, connection] : all_) all.push_back(connection);
  for (const auto& connection : all) connection->finish();
}

void Connections::close_all() {
  while (!all_.empty()) {
    const auto connection = all_.begin()->second;
    connection->close();
  }
}

bool Connections::wait_until_none(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return count_ == 0; });
}

void Connections::set_count() {
  const std::lock_guard lock(mutex_);
  count_ = all_.size();
  changed_.notify_all();
}

}  // namespace dovetail::server::http
