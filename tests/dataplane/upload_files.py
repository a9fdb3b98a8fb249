"""Uploads files by Indico's own calls, and tells what Indico has of them; run in a process of its own.

    upload_files.py make     attach files to each event
    upload_files.py add EVENT NAME  attach one more file to an event, in a material of its own
    upload_files.py delete   delete one of them
    upload_files.py restore  restore the deleted one
    upload_files.py show     print {name: content} as JSON
"""
import json
import os
import sys
import tempfile

import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.conference import ConferenceHolder, LocalFile, Material
from MaKaC.trashCan import TrashCanManager

FILES = 3  # of each event


def upload(material, name, content):
    descriptor, path = tempfile.mkstemp()
    os.write(descriptor, content)
    os.close(descriptor)
    resource = LocalFile()
    resource.setName(name)
    resource.setFileName(name)
    resource.setFilePath(path)
    material.addResource(resource)
    os.remove(path)


def make():
    for event in ConferenceHolder().getList():
        material = Material()
        material.setTitle('Slides')
        event.addMaterial(material)
        for number in range(FILES):
            name = 'talk-%s-%d.pdf' % (event.getId(), number)
            upload(material, name, 'content of %s' % name)


def add(event, name):
    material = Material()
    material.setTitle(name)
    ConferenceHolder().getById(event).addMaterial(material)
    upload(material, name, 'content of %s' % name)


def delete():
    material = ConferenceHolder().getList()[0].getAllMaterialList()[0]
    material.removeResource(material.getResourceList()[0])


def restore():
    deleted, = TrashCanManager().getValuesToList()
    ConferenceHolder().getList()[0].getAllMaterialList()[0].recoverResource(deleted)


def show():
    print(json.dumps(dict(
        (resource.getFileName(), resource.readBin())
        for event in ConferenceHolder().getList() for material in event.getAllMaterialList()
        for resource in material.getResourceList())))


def main():
    manager = DBMgr.getInstance()
    manager.startRequest()
    ContextManager.set('autoOps', [])
    ContextManager.set('test_env', False)  # without it the trash can gets nothing
    {'make': make, 'add': add, 'delete': delete, 'restore': restore, 'show': show}[
        sys.argv[1]](*sys.argv[2:])
    manager.endRequest(sys.argv[1] != 'show')


if __name__ == '__main__':
    main()
