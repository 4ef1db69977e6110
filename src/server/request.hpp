// A request, as a handler gets it, and its answer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dovetail/server.hpp"

namespace dovetail::server {

/// Names are in lower case. A header that occurs twice is here twice.
using Headers = std::vector<std::pair<std::string, std::string>>;

/// The first header of this name, which is in lower case.
[[nodiscard]] std::optional<std::string_view> find_header(const Headers& headers,
                                                          std::string_view name);

/// How a caller has proven who it is.
enum class Proof {
  none,     ///< Not at all.
  local,    ///< Authentication is off: everybody is an admin.
  token,    ///< A page of another site cannot send it.
  session,  ///< A cookie, which browsers send by themselves.
};

/// Who sent a request.
struct Identity {
  std::string name{};  ///< For the audit. Empty with Proof::none.
  ServerRole role = ServerRole::viewer;
  Proof proof = Proof::none;
};

/// What is known of a request before its body is read.
struct RequestHead {
  std::string method{};
  std::string target{};  ///< As it was sent: `/path?query`.
  Headers headers{};
  std::string peer{};  ///< The address of the client.
};

struct Route;

struct Request {
  const Route* route = nullptr;
  std::string method{};
  std::map<std::string, std::string> parameters{};  ///< Of the path; decoded.
  std::multimap<std::string, std::string> query{};  ///< Decoded.
  std::optional<std::string> authority{};           ///< Of a target that is an absolute URL.
  Headers headers{};
  std::string body{};
  Identity identity{};
  std::string peer{};

  /// A parameter of the path that the route's pattern names.
  [[nodiscard]] const std::string& parameter(const std::string& name) const {
    return parameters.at(name);
  }
  /// The first value of a name of the query.
  [[nodiscard]] std::optional<std::string> query_value(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? std::nullopt : std::optional{found->second};
  }
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  Headers headers{};
  /// The answer does not end: `body` is its beginning, and events follow.
  bool is_stream = false;
};

}  // namespace dovetail::server
