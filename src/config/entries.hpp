// Lists of named entries, such as those of [auth.tokens.NAME].
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

namespace dovetail::config {

/// The entry with this name. It is added if it is absent; a const list has an empty one.
template <class List>
auto& entry_named(List& list, const std::string& name) {
  using Entry = typename List::value_type;
  const auto found = std::ranges::find(list, name, &Entry::name);
  if (found != list.end()) return *found;
  if constexpr (std::is_const_v<List>) {
    static const Entry none{};
    return none;
  } else {
    return list.emplace_back(Entry{.name = name});
  }
}

}  // namespace dovetail::config
