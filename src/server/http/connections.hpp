// The open connections and their limits.
//
// Threads: only the thread of the connections uses it, except for wait_until_none() and streams().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "dovetail/server.hpp"

namespace dovetail::server::http {

class Connection {
 public:
  explicit Connection(std::string address) : address_(std::move(address)) {}
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  virtual void start() = 0;
  /// Closes it at once. A second call does nothing.
  virtual void close() = 0;
  /// Closes it after the request under way, if there is one.
  virtual void finish() = 0;
  /// Writes an event to the stream that the connection is.
  virtual void send_event(const std::shared_ptr<const std::string>& event) = 0;
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  friend class Connections;
  std::string address_;
  std::optional<std::list<Connection*>::iterator> place_;  ///< In Connections::waiting_.
};

class Connections {
 public:
  explicit Connections(const ServerLimits& limits) : limits_(limits) {}

  /// Makes room for a new connection of this address, if necessary by closing the one that has
  /// waited longest for a request. Returns false if there is none: all are busy.
  [[nodiscard]] bool make_room(const std::string& address);
  /// The same, after the process ran out of files.
  bool close_longest_waiting();

  void add(std::shared_ptr<Connection> connection);
  void remove(Connection& connection);
  /// The connection waits for a request, or for the rest of a header.
  void note_waiting(Connection& connection);
  void note_busy(Connection& connection);

  /// Returns false when too many bodies are received at the moment.
  [[nodiscard]] bool begin_body();
  void end_body() { --bodies_; }

  /// The connection is a stream of events from now on. Returns false when there are too many.
  [[nodiscard]] bool begin_stream(Connection& connection);
  void broadcast(const std::shared_ptr<const std::string>& event);
  [[nodiscard]] std::size_t streams() const { return stream_count_; }

  void finish_all();
  void close_all();
  [[nodiscard]] bool wait_until_none(std::chrono::milliseconds limit);

 private:
  [[nodiscard]] bool close_waiting_of(const std::string& address);
  void set_count();

  const ServerLimits limits_;
  std::map<Connection*, std::shared_ptr<Connection>> all_;
  std::list<Connection*> waiting_;  ///< The longest wait first.
  std::map<std::string, std::size_t> by_address_;
  std::size_t bodies_ = 0;
  std::set<Connection*> streams_;
  std::atomic<std::size_t> stream_count_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;  ///< The size of all_, for wait_until_none().
};

}  // namespace dovetail::server::http
