package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.stream.Stream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.Files;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.Transactions;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.RenameTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;

/**
 * A REST catalog for tests: Iceberg's own handlers of requests, over its catalog in memory and files on this disk.
 *
 * <p>The warehouse that a client names says what the server has: "plain" neither transactions of several tables nor
 * renaming, "bare" no registering; "copies" writes a file of its own for a table that is registered; "guarded" wants a
 * token, which ada gets with her secret.
 */
public class RestCatalogServer {
  private static final String TOKEN = "token-of-ada";
  private static final InMemoryCatalog CATALOG = new InMemoryCatalog();

  public static void main(String[] args) throws Exception {
    CATALOG.initialize("lake", Map.of());
    Field io = InMemoryCatalog.class.getDeclaredField("io");
    io.setAccessible(true);
    io.set(CATALOG, new DiskIO());
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 100);
    server.setExecutor(Executors.newFixedThreadPool(8));
    server.createContext("/", RestCatalogServer::handle);
    server.start();
  }

  private static void handle(HttpExchange exchange) throws IOException {
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      Object answer;
      int code = 200;
      try {
        answer = answer(exchange, new String(body, StandardCharsets.UTF_8));
      } catch (NoSuchTableException | NoSuchNamespaceException e) {
        answer = error(code = 404, e);
      } catch (AlreadyExistsException | CommitFailedException e) {
        answer = error(code = 409, e);
      } catch (SecurityException e) {
        answer = error(code = 401, e);
      } catch (RuntimeException e) {
        answer = error(code = 400, e);
      }
      byte[] json = answer == null ? new byte[0] : RESTObjectMapper.mapper().writeValueAsBytes(answer);
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.sendResponseHeaders(answer == null ? 204 : code, answer == null ? -1 : json.length);
      exchange.getResponseBody().write(json);
    } catch (IOException | Error e) { // the JDK's server would not say it
      e.printStackTrace();
      throw e;
    }
  }

  private static ErrorResponse error(int code, Exception e) {
    return ErrorResponse.builder()
        .responseCode(code)
        .withType(e.getClass().getSimpleName())
        .withMessage(String.valueOf(e.getMessage()))
        .build();
  }

  private static Object answer(HttpExchange exchange, String body) throws IOException {
    String method = exchange.getRequestMethod();
    String[] path =
        Stream.of(exchange.getRequestURI().getRawPath().substring(1).split("/"))
            .map(part -> URLDecoder.decode(part, StandardCharsets.UTF_8))
            .toArray(String[]::new);
    String query = String.valueOf(exchange.getRequestURI().getQuery());
    if (path[1].equals("oauth")) {
      if (!body.contains("client_secret=secret") || !body.contains("client_id=ada")) {
        throw new SecurityException("another client");
      }
      return Map.of("access_token", TOKEN, "token_type", "bearer", "issued_token_type", "x", "expires_in", 3600);
    }
    String warehouse = path[1].equals("config") ? query.replace("warehouse=", "") : path[1];
    String given = String.valueOf(exchange.getRequestHeaders().getFirst("Authorization"));
    if (warehouse.equals("guarded") && !given.equals("Bearer " + TOKEN)) {
      throw new SecurityException("no token");
    }
    return path[1].equals("config") ? config(warehouse) : catalog(method, path, body, query);
  }

  private static ConfigResponse config(String warehouse) {
    List<Endpoint> endpoints =
        new ArrayList<>(
            List.of(
                Endpoint.V1_LIST_NAMESPACES,
                Endpoint.V1_LOAD_NAMESPACE,
                Endpoint.V1_CREATE_NAMESPACE,
                Endpoint.V1_LIST_TABLES,
                Endpoint.V1_LOAD_TABLE,
                Endpoint.V1_UPDATE_TABLE,
                Endpoint.V1_DELETE_TABLE,
                Endpoint.V1_REGISTER_TABLE,
                Endpoint.V1_RENAME_TABLE,
                Endpoint.V1_COMMIT_TRANSACTION));
    if (warehouse.equals("plain")) {
      endpoints.removeAll(List.of(Endpoint.V1_COMMIT_TRANSACTION, Endpoint.V1_RENAME_TABLE));
    } else if (warehouse.equals("bare")) {
      endpoints.remove(Endpoint.V1_REGISTER_TABLE);
    }
    return ConfigResponse.builder().withEndpoints(endpoints).withOverride("prefix", warehouse).build();
  }

  private static Object catalog(String method, String[] path, String body, String query) throws IOException {
    Namespace namespace = path.length > 3 ? Namespace.of(path[3].split("\u001f")) : null;
    TableIdentifier table = path.length > 5 ? TableIdentifier.of(namespace, path[5]) : null;
    String route = method + " " + path[2] + (path.length > 4 ? "/" + path[4] : "") + " " + path.length;
    switch (route) {
      case "GET namespaces 3":
        return CatalogHandlers.listNamespaces(CATALOG, Namespace.empty());
      case "POST namespaces 3":
        return CatalogHandlers.createNamespace(CATALOG, read(body, CreateNamespaceRequest.class));
      case "GET namespaces 4":
        return CatalogHandlers.loadNamespace(CATALOG, namespace);
      case "GET namespaces/tables 5":
        return CatalogHandlers.listTables(CATALOG, namespace);
      case "POST namespaces/register 5":
        RegisterTableRequest given = read(body, RegisterTableRequest.class);
        LoadTableResponse registered = CatalogHandlers.registerTable(CATALOG, namespace, given);
        if (!path[1].equals("copies")) {
          return registered;
        }
        TableIdentifier named = TableIdentifier.of(namespace, given.name());
        CATALOG.loadTable(named).updateProperties().set("server", "own").commit();
        return CatalogHandlers.loadTable(CATALOG, named, RESTCatalogProperties.SnapshotMode.ALL);
      case "GET namespaces/tables 6":
        return CatalogHandlers.loadTable(CATALOG, table, RESTCatalogProperties.SnapshotMode.ALL);
      case "POST namespaces/tables 6":
        return CatalogHandlers.updateTable(CATALOG, table, read(body, UpdateTableRequest.class));
      case "DELETE namespaces/tables 6":
        CatalogHandlers.dropTable(CATALOG, table);
        return null;
      case "POST tables 4":
        CatalogHandlers.renameTable(CATALOG, read(body, RenameTableRequest.class));
        return null;
      case "POST transactions 4":
        commit(read(body, CommitTransactionRequest.class));
        return null;
      default:
        throw new IllegalArgumentException("no such route: " + route);
    }
  }

  /** As Iceberg's own server for tests does it: all requirements are checked before the first table changes. */
  private static void commit(CommitTransactionRequest request) {
    List<Transaction> transactions = new ArrayList<>();
    for (UpdateTableRequest change : request.tableChanges()) {
      BaseTable table = (BaseTable) CATALOG.loadTable(change.identifier());
      Transaction transaction = Transactions.newTransaction(change.identifier().toString(), table.operations());
      transactions.add(transaction);
      CatalogHandlers.commit(((BaseTransaction.TransactionTable) transaction.table()).operations(), change);
    }
    transactions.forEach(Transaction::commitTransaction);
  }

  private static <T> T read(String body, Class<T> type) throws IOException {
    return RESTObjectMapper.mapper().readValue(body, type);
  }

  /** Files on this disk by their URIs, which are literal. */
  public static class DiskIO implements FileIO {
    private static File file(String uri) {
      return new File(uri.replaceFirst("^file://", ""));
    }

    @Override
    public InputFile newInputFile(String uri) {
      InputFile found = Files.localInput(file(uri));
      return new InputFile() {
        @Override
        public long getLength() {
          return found.getLength();
        }

        @Override
        public SeekableInputStream newStream() {
          return found.newStream();
        }

        @Override
        public String location() {
          return uri;
        }

        @Override
        public boolean exists() {
          return found.exists();
        }
      };
    }

    @Override
    public OutputFile newOutputFile(String uri) {
      file(uri).getParentFile().mkdirs();
      OutputFile made = Files.localOutput(file(uri));
      return new OutputFile() {
        @Override
        public PositionOutputStream create() {
          return made.create();
        }

        @Override
        public PositionOutputStream createOrOverwrite() {
          return made.createOrOverwrite();
        }

        @Override
        public String location() {
          return uri;
        }

        @Override
        public InputFile toInputFile() {
          return newInputFile(uri);
        }
      };
    }

    @Override
    public void deleteFile(String uri) {
      file(uri).delete();
    }
  }
}
