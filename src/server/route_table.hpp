// All routes of the server, in one table: method, path, role, handler.
//
//   routes.add({.method = "GET",
//               .pattern = "/api/v1/queues/{queue}",
//               .role = ServerRole::viewer,
//               .handler = [&](const Request& request) { … request.parameter("queue") … }});
//
// A handler may block, for example in the database. What it throws becomes the answer: Problem its
// status, std::invalid_argument and std::out_of_range 400, InvalidOperation 409, a transient Error
// 503, everything else 500.
//
// Threads: routes are added before the server starts; then the table is only read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/request.hpp"

namespace dovetail::server {

/// Which threads call a handler.
enum class Capacity {
  shared,   ///< ServerOptions::threads.
  health,   ///< Threads of their own, which slow requests cannot use up.
  metrics,  ///< A thread of its own: a scrape may wait for the database.
  login,    ///< The LoginQueue.
  at_once,  ///< The thread of the connections. The handler must not block.
};

struct Route {
  std::string method{};   ///< `GET`; a GET route answers HEAD, too.
  std::string pattern{};  ///< `{name}` is one segment of the path.
  /// Absent: for everybody, without authentication, and for GET with every Host.
  std::optional<ServerRole> role{};
  std::function<Response(const Request&)> handler{};
  Capacity capacity = Capacity::shared;
  /// Of other methods than GET: whether it changes data, and is refused by a read-only server.
  bool changes_data = true;
  /// The handler checks a signature of the caller. So every Host, Content-Type and site may call
  /// it.
  bool is_signed = false;
};

class RouteTable {
 public:
  struct Match {
    const Route* route = nullptr;  ///< Null: see `allowed`.
    std::map<std::string, std::string> parameters{};
    std::vector<std::string> allowed{};  ///< The methods of this path; empty: no such path.
  };

  /// Throws InvalidOperation when the method and the pattern exist already.
  void add(Route route);
  /// The page for paths without a route. Browsers get it: clients whose Accept header names
  /// text/html. Paths below /api, /assets, /health, /metrics and /webhooks have no page.
  void add_page(Route route);
  /// The page for this path, or null.
  [[nodiscard]] const Route* page_at(const std::vector<std::string>& segments) const;
  /// A fixed segment is preferred to a parameter.
  [[nodiscard]] Match find(std::string_view method, const std::vector<std::string>& segments) const;
  /// In the order in which they were added.
  [[nodiscard]] std::vector<const Route*> all() const;

 private:
  struct Entry {
    Route route;
    std::vector<std::string> segments;
  };
  std::vector<std::unique_ptr<Entry>> entries_;
  std::unique_ptr<Route> page_;
};

}  // namespace dovetail::server
