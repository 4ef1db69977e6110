// A TCP proxy in front of PostgreSQL that cuts a connection at the worst moment: the server has
// executed the statement and answered, but the answer never arrives.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dovetail::testing {

class CuttingProxy {
 public:
  /// `url` names the server by host and port, as tools/pg-cluster does.
  explicit CuttingProxy(const std::string& url);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  /// The same database, through the proxy.
  [[nodiscard]] const std::string& url() const { return url_; }

  /// The next connection that sends `text` is cut after the server has answered.
  void cut_answer_to(const std::string& text);
  [[nodiscard]] int cuts() const { return cuts_; }
  /// How often a client has sent data after an answer of the server, in all connections. Wake-ups
  /// of workers (NOTIFY) do not count: a connection of their own sends them.
  [[nodiscard]] int round_trips() const { return round_trips_; }

  /// Forwards no more data, neither on old connections nor on new ones, like a frozen server.
  void freeze() { frozen_ = true; }
  void thaw() { frozen_ = false; }
  /// True once the frozen proxy has held back data of a client or of the server.
  [[nodiscard]] bool holds_something_back() const { return holds_back_; }

 private:
  void accept_loop();
  void serve(int client);
  bool takes_the_cut(const std::string& sent);

  std::string url_;
  std::string server_port_;
  int listener_ = -1;
  std::mutex mutex_;
  std::string armed_;
  std::atomic<int> cuts_{0};
  std::atomic<int> round_trips_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> frozen_{false};
  std::atomic<bool> holds_back_{false};
  std::vector<std::jthread> connections_;
  std::jthread acceptor_;
};

}  // namespace dovetail::testing
