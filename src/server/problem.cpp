#include "server/problem.hpp"

#include <map>
#include <nlohmann/json.hpp>

namespace dovetail::server {

std::string title_of(int status) {
  static const std::map<int, std::string> titles{{200, "OK"},
                                                 {201, "Created"},
                                                 {202, "Accepted"},
                                                 {204, "No Content"},
                                                 {303, "See Other"},
                                                 {304, "Not Modified"},
                                                 {400, "Bad Request"},
                                                 {401, "Unauthorized"},
                                                 {403, "Forbidden"},
                                                 {404, "Not Found"},
                                                 {405, "Method Not Allowed"},
                                                 {406, "Not Acceptable"},
                                                 {408, "Request Timeout"},
                                                 {409, "Conflict"},
                                                 {413, "Content Too Large"},
                                                 {414, "URI Too Long"},
                                                 {415, "Unsupported Media Type"},
                                                 {417, "Expectation Failed"},
                                                 {422, "Unprocessable Content"},
                                                 {429, "Too Many Requests"},
                                                 {431, "Request Header Fields Too Large"},
                                                 {500, "Internal Server Error"},
                                                 {501, "Not Implemented"},
                                                 {503, "Service Unavailable"}};
  const auto found = titles.find(status);
  return found == titles.end() ? "Status " + std::to_string(status) : found->second;
}

std::string type_of(int status) {
  std::string type = "urn:dovetail:problem:";
  for (const char each : title_of(status)) {
    if (each >= 'A' && each <= 'Z') {
      type.push_back(static_cast<char>(each - 'A' + 'a'));
    } else {
      type.push_back(each == ' ' ? '-' : each);
    }
  }
  return type;
}

Response problem(int status, const std::string& detail) {
  const nlohmann::ordered_json body{{"type", type_of(status)},
                                    {"title", title_of(status)},
                                    {"status", status},
                                    {"detail", detail}};
  using Handling = nlohmann::ordered_json::error_handler_t;
  return {.status = status,
          .content_type = "application/problem+json",
          .body = body.dump(-1, ' ', false, Handling::replace)};
}

Response problem(const Problem& error) {
  auto response = problem(error.status(), error.what());
  if (const auto wait = error.retry_after().count(); wait > 0)
    response.headers.emplace_back("Retry-After", std::to_string(wait));
  return response;
}

}  // namespace dovetail::server
