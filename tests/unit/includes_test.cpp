// The direction of dependencies: which folder of src may include which. docs/architecture.md has
// the same list.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "support/paths.hpp"

namespace dovetail {
namespace {

using Folders = std::set<std::string>;

const std::filesystem::path source_dir = testing::source_directory;

/// The components, in the order in which src/runtime/components.cpp registers them.
std::vector<std::string> components() {
  static const std::regex registration(R"(&([a-z_]+)::make_component)");
  std::ifstream in{source_dir / "src/runtime/components.cpp"};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  std::vector<std::string> names;
  for (std::sregex_iterator match{text.begin(), text.end(), registration}, end; match != end;
       ++match) {
    names.push_back(match->str(1));
  }
  return names;
}

/// A folder, and the folders that it may include besides itself and the public headers.
struct Layer {
  std::string folder;
  std::vector<std::string> includes;
};

const std::vector<Layer> layers_below{{"core", {}},
                                      {"storage", {"core"}},
                                      {"postgres", {"core", "storage"}},
                                      {"sqlite", {"core", "storage"}},
                                      {"queue", {"core", "storage"}},
                                      {"component", {"core", "storage"}},
                                      {"observe", {"core"}}};
/// What each component may include, in addition to the components that are registered before it.
const std::vector<std::string> component_includes{"core", "storage", "queue", "component"};
/// The runtime may also include all components.
const Layer runtime_layer{"runtime", {"core", "storage", "queue", "component", "observe"}};
const std::vector<Layer> layers_above{
    {"group", {"core", "storage", "component", "observe", "fanout", "event", "runtime"}},
    {"transport", {"core", "storage", "queue", "component", "observe", "inbox", "runtime"}},
    {"json", {}},
    {"server", {"core", "observe", "transport", "json"}},
    {"config", {"core", "storage", "runtime", "transport"}},
    {"cli", {"core", "storage", "runtime", "transport", "json", "config"}}};

std::map<std::string, Folders> make_table() {
  std::map<std::string, Folders> table;
  for (const auto& layers : {layers_below, layers_above}) {
    for (const auto& [folder, includes] : layers) {
      table[folder] = Folders(includes.begin(), includes.end());
    }
  }
  Folders below(component_includes.begin(), component_includes.end());
  auto& runtime = table["runtime"];
  runtime = Folders(runtime_layer.includes.begin(), runtime_layer.includes.end());
  for (const auto& name : components()) {
    table[name] = below;
    below.insert(name);
    runtime.insert(name);
  }
  return table;
}

std::string line_of(const Layer& layer) {
  std::string line = layer.folder + ":";
  for (const auto& folder : layer.includes) line += " " + folder;
  return line;
}

/// The list of docs/architecture.md.
std::string documented_table() {
  std::string text = "```text\n";
  for (const auto& layer : layers_below) text += line_of(layer) + "\n";
  std::string all;
  for (const auto& name : components()) all += (all.empty() ? "" : ", ") + name;
  text += line_of({all, component_includes}) + "\n";
  text += line_of(runtime_layer) + ", all components\n";
  for (const auto& layer : layers_above) text += line_of(layer) + "\n";
  return text + "```\n";
}

const std::map<std::string, Folders>& allowed() {
  static const auto table = make_table();
  return table;
}

struct Include {
  std::string file;    ///< Relative to the root.
  std::string folder;  ///< The folder of the file: `core`.
  std::string header;  ///< The included header: `core/text.hpp`, `libpq-fe.h`.
};

void add_includes_of(const std::filesystem::path& path, const std::string& folder,
                     std::vector<Include>& found) {
  static const std::regex directive(R"(^\s*#include [<"]([^>"]+)[>"])");
  std::ifstream in{path};
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_search(line, match, directive)) continue;
    found.push_back({std::filesystem::relative(path, source_dir).string(), folder, match.str(1)});
  }
}

bool is_code(const std::string& name) {
  return name.ends_with(".hpp") || name.ends_with(".cpp") || name.ends_with(".in");
}

/// The includes of all files below `root`. Their folder is the first part of the path.
std::vector<Include> includes_below(const std::filesystem::path& root) {
  std::vector<Include> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const auto relative = std::filesystem::relative(entry.path(), root);
    if (is_code(relative.string())) {
      add_includes_of(entry.path(), relative.begin()->string(), found);
    }
  }
  return found;
}

std::string folder_of(const std::string& header) {
  const auto slash = header.find('/');
  return slash == std::string::npos ? "" : header.substr(0, slash);
}

TEST(Architecture, EveryFolderOfTheSourcesIsALayerOrARegisteredComponent) {
  for (const auto& entry : std::filesystem::directory_iterator(source_dir / "src")) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(allowed().contains(entry.path().filename().string()))
        << "src/" << entry.path().filename().string()
        << " is neither in src/runtime/components.cpp nor in tests/unit/includes_test.cpp";
  }
}

TEST(Architecture, TheDocumentationListsTheDependencies) {
  std::ifstream in{source_dir / "docs/architecture.md"};
  const std::string page{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_NE(page.find(documented_table()), std::string::npos) << "docs/architecture.md lacks:\n"
                                                              << documented_table();
}

TEST(Architecture, IncludesPointOneWay) {
  const auto includes = includes_below(source_dir / "src");
  EXPECT_GT(includes.size(), 300U);
  for (const auto& [file, folder, header] : includes) {
    const auto target = folder_of(header);
    if (target == folder || !allowed().contains(target)) continue;
    EXPECT_TRUE(allowed().at(folder).contains(target))
        << file << " includes " << header << ": src/" << folder << " must not depend on src/"
        << target;
  }
}

TEST(Architecture, PublicHeadersIncludeNoSources) {
  for (const auto& [file, folder, header] : includes_below(source_dir / "include")) {
    EXPECT_FALSE(allowed().contains(folder_of(header))) << file << " includes " << header;
  }
}

TEST(Architecture, HeadersOfADatabaseAppearOnlyInTheirEngine) {
  const std::map<std::string, std::string> engines{{"libpq-fe.h", "postgres"},
                                                   {"sqlite3.h", "sqlite"}};
  for (const auto& [file, folder, header] : includes_below(source_dir / "src")) {
    const auto engine = engines.find(header);
    if (engine != engines.end()) {
      EXPECT_EQ(folder, engine->second) << file << " includes " << header;
    }
  }
}

TEST(Architecture, HeadersOfABrokerAppearOnlyInTheirTransport) {
  const std::map<std::string, std::string> transports{{"nats/nats.h", "nats"},
                                                      {"amqp.h", "rabbitmq"},
                                                      {"amqp_ssl_socket.h", "rabbitmq"},
                                                      {"amqp_tcp_socket.h", "rabbitmq"}};
  for (const auto& [file, folder, header] : includes_below(source_dir / "src")) {
    const auto transport = transports.find(header);
    if (transport != transports.end()) {
      EXPECT_TRUE(file.starts_with("src/transport/" + transport->second + "/"))
          << file << " includes " << header;
    }
  }
}

}  // namespace
}  // namespace dovetail
