#include "server/route_table.hpp"

#include <algorithm>
#include <set>

#include "dovetail/error.hpp"
#include "server/path.hpp"

namespace dovetail::server {
namespace {

bool is_parameter(const std::string& segment) {
  return segment.starts_with("{") && segment.ends_with("}");
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& segments) {
  return std::ranges::equal(pattern, segments, [](const auto& wanted, const auto& given) {
    return is_parameter(wanted) ? !given.empty() : wanted == given;
  });
}

/// True if the first fixed segment that only one of them has is in `left`.
bool is_more_exact(const std::vector<std::string>& left, const std::vector<std::string>& right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (is_parameter(left[i]) != is_parameter(right[i])) return is_parameter(right[i]);
  }
  return false;
}

}  // namespace

std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, [](const auto& each) { return each.first; });
  return found == headers.end() ? std::nullopt : std::optional<std::string_view>{found->second};
}

void RouteTable::add(Route route) {
  for (const auto& entry : entries_) {
    if (entry->route.method == route.method && entry->route.pattern == route.pattern) {
      throw InvalidOperation("the route " + route.method + " " + route.pattern + " exists already");
    }
  }
  auto segments = segments_of(route.pattern);
  entries_.push_back(std::make_unique<Entry>(Entry{std::move(route), std::move(segments)}));
}

void RouteTable::add_page(Route route) {
  page_ = std::make_unique<Route>(std::move(route));
}

const Route* RouteTable::page_at(const std::vector<std::string>& segments) const {
  static const std::set<std::string> without_pages{"api", "assets", "health", "metrics",
                                                   "webhooks"};
  const bool has_page = segments.empty() || !without_pages.contains(segments.front());
  return has_page ? page_.get() : nullptr;
}

RouteTable::Match RouteTable::find(std::string_view method,
                                   const std::vector<std::string>& segments) const {
  const Entry* best = nullptr;
  std::set<std::string> methods;
  for (const auto& entry : entries_) {
    if (!matches(entry->segments, segments)) continue;
    const auto& own = entry->route.method;
    methods.insert(own);
    if (own == "GET") methods.insert("HEAD");
    const bool wanted = own == method || (method == "HEAD" && own == "GET");
    if (wanted && (best == nullptr || is_more_exact(entry->segments, best->segments)))
      best = entry.get();
  }
  Match match{.allowed = {methods.begin(), methods.end()}};
  if (best == nullptr) return match;
  match.route = &best->route;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& wanted = best->segments[i];
    if (is_parameter(wanted))
      match.parameters.emplace(wanted.substr(1, wanted.size() - 2), segments[i]);
  }
  return match;
}

std::vector<const Route*> RouteTable::all() const {
  std::vector<const Route*> routes;
  for (const auto& entry : entries_) routes.push_back(&entry->route);
  return routes;
}

}  // namespace dovetail::server
