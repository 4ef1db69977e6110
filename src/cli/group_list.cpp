#include "cli/group_list.hpp"

namespace dovetail::cli {

void require_one_database(const Globals& globals, bool start_after) {
  if (!start_after || !globals.has_group() || read_group(globals).good.size() == 1) return;
  throw std::invalid_argument(
      "--start-after is a place in one database: name that database with --only KEY");
}

GroupChange change_group(const Globals& globals, const std::string& word,
                         const std::function<std::size_t(Platform&)>& change) {
  GroupChange result;
  const auto print = [&](const DatabaseAnswer<std::size_t>& each) {
    if (!each.answer) return;
    result.total += *each.answer;
    if (!globals.json && *each.answer > 0)
      std::cout << each.key << "  " << word << ' ' << *each.answer << std::endl;
  };
  result.answers = ask_each<std::size_t>(globals, change, std::nullopt, print);
  if (globals.json) {
    const std::function<nlohmann::ordered_json(const std::size_t&)> form =
        [&](const std::size_t& count) {
          return nlohmann::ordered_json{{word, count}};
        };
    auto answer = group_json<std::size_t>(result.answers, form);
    answer[word] = result.total;
    std::cout << answer.dump(2) << '\n';
  } else {
    std::cout << word << ' ' << result.total << " in " << count_of_databases(result.answers.size())
              << '\n';
  }
  return result;
}

}  // namespace dovetail::cli
