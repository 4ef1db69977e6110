#include "cli/http_get.hpp"

#ifdef DOVETAIL_WITH_SERVER

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>

namespace dovetail::cli {
namespace {

constexpr std::size_t largest_answer = std::size_t{16} << 20;

[[noreturn]] void refuse(const std::string& url, const std::string& why) {
  throw std::invalid_argument("--url must be http://host[:port][/path] or https://…, got \"" + url +
                              "\": " + why);
}

struct UrlPart {
  CURLUPart part;
  const char* mistake;
};

/// Parts of a URL that must be absent.
constexpr std::array unwanted_parts{
    UrlPart{CURLUPART_USER, "it must not contain a user"},
    UrlPart{CURLUPART_QUERY, "it must not contain a query"},
    UrlPart{CURLUPART_FRAGMENT, "it must not contain a fragment"},
};

void require_url(const std::string& url) {
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    refuse(url, "it does not begin with http:// or https://");
  const bool is_plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7F; });
  if (!is_plain) refuse(url, "it contains a space or another character that a URL has not");
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  const auto code = curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0);
  if (code != CURLUE_OK) refuse(url, curl_url_strerror(code));
  for (const auto& [part, mistake] : unwanted_parts) {
    char* found = nullptr;
    if (curl_url_get(parsed.get(), part, &found, 0) != CURLUE_OK) continue;
    curl_free(found);
    refuse(url, mistake);
  }
}

std::size_t append(char* data, std::size_t size, std::size_t count, void* target) {
  auto& body = *static_cast<std::string*>(target);
  if (body.size() + size * count > largest_answer) return 0;  // an error for libcurl
  body.append(data, size * count);
  return size * count;
}

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  const auto code = curl_easy_setopt(handle, option, value);
  if (code != CURLE_OK) throw std::runtime_error(curl_easy_strerror(code));
}

void set_target(CURL* handle, const HttpRequest& request) {
  auto url = request.url;
  while (url.ends_with('/')) url.pop_back();
  url += request.path;
  set(handle, CURLOPT_URL, url.c_str());
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_NOPROXY, "*");
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(request.limit.count()));
  if (!request.ca_file.empty()) set(handle, CURLOPT_CAINFO, request.ca_file.c_str());
}

}  // namespace

HttpAnswer http_get(const HttpRequest& request) {
  require_url(request.url);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(),
                                                                   &curl_easy_cleanup);
  if (!handle) throw std::runtime_error("libcurl could not be initialised");
  set_target(handle.get(), request);
  curl_slist* lines = curl_slist_append(nullptr, "Accept: application/json");
  if (!request.bearer_token.empty())
    lines = curl_slist_append(lines, ("Authorization: Bearer " + request.bearer_token).c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> owner(lines,
                                                                          &curl_slist_free_all);
  std::array<char, CURL_ERROR_SIZE> reason{};
  HttpAnswer answer;
  set(handle.get(), CURLOPT_HTTPHEADER, lines);
  set(handle.get(), CURLOPT_ERRORBUFFER, reason.data());
  set(handle.get(), CURLOPT_WRITEFUNCTION, &append);
  set(handle.get(), CURLOPT_WRITEDATA, &answer.body);
  const auto code = curl_easy_perform(handle.get());
  if (code != CURLE_OK)
    throw std::runtime_error(reason[0] != '\0' ? reason.data() : curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace dovetail::cli

#else

#include <stdexcept>

namespace dovetail::cli {

HttpAnswer http_get(const HttpRequest& /*request*/) {
  throw std::invalid_argument("--url needs a build with -DDOVETAIL_SERVER=ON");
}

}  // namespace dovetail::cli

#endif
