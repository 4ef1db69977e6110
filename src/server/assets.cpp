#include "server/assets.hpp"

#include <algorithm>

#include "server/assets_data.hpp"
#include "server/problem.hpp"

namespace dovetail::server {
namespace {

constexpr const char* without_dashboard =
    "This dovetail was built without the dashboard: npm was missing, or DOVETAIL_DASHBOARD was "
    "off.\nThe API is at /api/v1, its description at /api/v1/openapi.json.\n";

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char each : text) {
    if (each == '&') {
      escaped += "&amp;";
    } else if (each == '"') {
      escaped += "&quot;";
    } else if (each == '<') {
      escaped += "&lt;";
    } else {
      escaped += each;
    }
  }
  return escaped;
}

std::string page_for(const std::string& base_path) {
  constexpr std::string_view mark = "{{base}}";
  const auto base = html_escaped(base_path);
  std::string page{embedded_page()};
  for (auto at = page.find(mark); at != std::string::npos; at = page.find(mark, at + base.size()))
    page.replace(at, mark.size(), base);
  return page;
}

Response asset_named(const Request& request) {
  const auto& name = request.parameter("name");
  const auto assets = embedded_assets();
  const auto found = std::ranges::find(assets, name, &Asset::name);
  if (found == assets.end()) throw Problem(404, "there is no file " + name + ": reload the page");
  if (!accepts_gzip(request.headers))
    throw Problem(406, "the files of the dashboard are compressed: accept the encoding gzip");
  return {.content_type = std::string{found->content_type},
          .body = std::string{found->gzip},
          .headers = {{"Content-Encoding", "gzip"},
                      {"Vary", "Accept-Encoding"},
                      {"Cache-Control", "public, max-age=31536000, immutable"}}};
}

Response page_response(const std::string& page) {
  if (page.empty()) {
    return {.status = 404, .content_type = "text/plain; charset=utf-8", .body = without_dashboard};
  }
  return {.content_type = "text/html; charset=utf-8",
          .body = page,
          .headers = {{"Cache-Control", "no-cache"}}};
}

std::string lowered(std::string_view text) {
  std::string lower{text};
  for (auto& each : lower) {
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  }
  return lower;
}

/// The weight of `coding` in an Accept-Encoding header, or nothing if the header does not name it.
std::optional<double> weight_in(std::string_view header, std::string_view coding) {
  while (!header.empty()) {
    const auto end = header.find(',');
    auto part = header.substr(0, end);
    part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));
    if (part.substr(0, part.find_first_of("; \t")) == coding) {
      const auto weight = part.find("q=");
      return weight == std::string_view::npos
                 ? 1.0
                 : std::strtod(std::string{part.substr(weight + 2)}.c_str(), nullptr);
    }
    if (end == std::string_view::npos) break;
    header.remove_prefix(end + 1);
  }
  return std::nullopt;
}

}  // namespace

bool accepts_gzip(const Headers& headers) {
  const auto header = find_header(headers, "accept-encoding");
  if (!header) return true;
  const auto text = lowered(*header);
  return weight_in(text, "gzip").value_or(weight_in(text, "*").value_or(0)) > 0;
}

bool accepts_html(const Headers& headers) {
  return find_header(headers, "accept").value_or("").find("text/html") != std::string_view::npos;
}

void add_asset_routes(RouteTable& routes, const std::string& base_path) {
  const auto handler = [page = page_for(base_path)](const Request&) { return page_response(page); };
  routes.add({.method = "GET",
              .pattern = "/assets/{name}",
              .handler = asset_named,
              .capacity = Capacity::at_once});
  routes.add({.method = "GET", .pattern = "/", .handler = handler, .capacity = Capacity::at_once});
  routes.add_page({.method = "GET", .handler = handler, .capacity = Capacity::at_once});
}

}  // namespace dovetail::server
