// Answers that several tabs of the dashboard share: fifty open tabs cost the database as much as
// one.
//
// A client that accepts an older answer says so: `Cache-Control: max-age=2`. Then the answer may be
// that of the same request of another client with the same role, and equal requests at the same
// time are computed once. Requests without the header are never answered from here.
//
// Threads: may be shared between threads.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/request.hpp"

namespace dovetail::server {

class AnswerCache {
 public:
  /// The answer of `compute`, or one that is not older than the request allows.
  Response answer(const Request& request, const std::function<Response()>& compute);
  /// After a change: its author wants to see it.
  void clear();

 private:
  struct Entry {
    std::mutex mutex;  ///< Held while the answer is computed.
    std::optional<std::chrono::steady_clock::time_point> computed_at;
    Response response;
  };
  std::shared_ptr<Entry> entry_of(const std::string& key);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

/// The age that `Cache-Control: max-age=N` of a request allows, up to a minute.
[[nodiscard]] std::optional<std::chrono::seconds> allowed_age(const Headers& headers);

}  // namespace dovetail::server
